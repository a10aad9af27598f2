"""The arguments of ``torchlint check``, and the settings that they set."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from torchlint import __version__
from torchlint.commands import (
    SUMMARIES,
    Parser,
    UsageError,
    add_amount,
    add_settings,
    environment,
    given_settings,
    usage_errors,
)
from torchlint.settings.formats import FORMATS

if TYPE_CHECKING:
    from torchlint.settings.resolver import Resolver

#: Options that are settings too, under the same name.
_SAME = (
    "fix",
    "unsafe-fixes",
    "show-fixes",
    "preview",
    "fail-on",
    "target-torch",
    "respect-gitignore",
    "force-exclude",
    "output-format",
    "baseline",
    "min-speedup",
    "device",
    "timeout",
    "cache-dir",
)
_LISTS = (
    "select",
    "extend-select",
    "ignore",
    "fixable",
    "extend-fixable",
    "unfixable",
    "exclude",
    "extend-exclude",
)


def parser() -> Parser:
    """The parser of ``torchlint check``."""
    parser = Parser(
        prog="torchlint",
        usage="torchlint [check] [OPTIONS] [PATH...]\n       torchlint COMMAND ...",
        description="Find and fix PyTorch performance anti-patterns.",
        epilog=f"commands:\n{_commands()}\n\n`torchlint help COMMAND` shows the options of a command.\n"
        "Exit status: 0 no warnings, 1 warnings remain, 2 usage, configuration or internal error.",
        shared=False,
    )
    switch = argparse.BooleanOptionalAction
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: .); - is standard input")
    parser.add_argument("-V", "--version", action="version", version=f"torchlint {__version__}")
    parser.add_argument("-w", "--watch", action="store_true", help="check again whenever a file changes")
    fixing = parser.add_argument_group("fixes")
    fixing.add_argument("--fix", action=switch, help="apply safe fixes")
    fixing.add_argument("--unsafe-fixes", action=switch, help="include fixes that may change results or behaviour")
    fixing.add_argument("--show-fixes", action=switch, help="list the applied fixes")
    fixing.add_argument("--diff", action="store_true", help="show what --fix would change; write nothing")
    fixing.add_argument("--fix-only", action="store_true", help="apply fixes and do not report the remaining findings")
    for name, what in (
        ("--fixable", "rules whose fixes may be applied (default: ALL)"),
        ("--extend-fixable", "further rules whose fixes may be applied"),
        ("--unfixable", "rules whose fixes are neither offered nor applied"),
    ):
        fixing.add_argument(name, action="append", metavar="RULES", help=what)
    rules = parser.add_argument_group("rules")
    for name, what in (
        ("--select", "rules to run: codes, prefixes, names or ALL"),
        ("--extend-select", "rules to run in addition to the selected ones"),
        ("--ignore", "rules not to run"),
        ("--extend-ignore", "the same as --ignore"),
    ):
        rules.add_argument(name, action="append", metavar="RULES", help=f"{what} (comma-separated)")
    rules.add_argument(
        "--per-file-ignores", action="append", metavar="PATTERN:RULES", help="rules not to run in the files that match"
    )
    rules.add_argument(
        "--extend-per-file-ignores", action="append", metavar="PATTERN:RULES", help="the same, in addition"
    )
    rules.add_argument("--preview", action=switch, help="run the selected rules that are in preview too")
    rules.add_argument("--target-torch", metavar="VERSION", help="the oldest torch that the project supports")
    rules.add_argument(
        "--min-speedup", type=float, metavar="FACTOR", help="run only rules with at least this measured speed-up"
    )
    rules.add_argument("--device", metavar="NAME", help="the device of the measurements: GPU, CPU, or a part of a name")
    adopting = parser.add_argument_group("adopting")
    adopting.add_argument("--ignore-noqa", action="store_true", help="report suppressed findings too")
    adopting.add_argument(
        "--add-noqa", nargs="?", const="", metavar="=REASON", help="suppress all findings with `# noqa` comments"
    )
    adopting.add_argument("--baseline", metavar="FILE", help="report only findings that this file does not list")
    adopting.add_argument("--update-baseline", action="store_true", help="write the findings to the baseline file")
    files = parser.add_argument_group("files")
    files.add_argument("--exclude", action="append", metavar="PATTERNS", help="paths to skip (comma-separated)")
    files.add_argument("--extend-exclude", action="append", metavar="PATTERNS", help="further paths to skip")
    files.add_argument("--respect-gitignore", action=switch, help="skip what git ignores (default)")
    files.add_argument("--force-exclude", action=switch, help="skip excluded files even if they are named")
    files.add_argument("--stdin-filename", metavar="FILE", help="the name of the file on standard input")
    files.add_argument("--timeout", type=float, metavar="SECONDS", help="CPU time that a file may take (default: 10)")
    files.add_argument("--show-files", action="store_true", help="list the files that would be checked")
    report = parser.add_argument_group("report")
    report.add_argument("--output-format", metavar="FORMAT", help=f"one of {', '.join(FORMATS)} (default: full)")
    report.add_argument("-o", "--output-file", metavar="FILE", help="write the report to a file")
    report.add_argument("--statistics", action="store_true", help="print the number of findings of each rule instead")
    report.add_argument(
        "--sort", choices=("location", "gain"), default="location", help="the order of findings (default: location)"
    )
    report.add_argument(
        "--profile", metavar="TRACE", help="show and sort by the share that each finding has of a torch.profiler trace"
    )
    report.add_argument("--timing", action="store_true", help="print the CPU time of phases, rules and files")
    add_amount(
        report,
        "also print settings files, versions and times",
        "print findings only, no summary",
        "print nothing; the exit status tells the result",
    )
    report.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        help="severity that fails a run: warning or info (default: warning)",
    )
    report.add_argument("-e", "--exit-zero", action="store_true", help="exit with 0 even if findings remain")
    report.add_argument(
        "--exit-non-zero-on-fix",
        action="store_true",
        help="exit with 1 if files were fixed, even if nothing remains",
    )
    caching = parser.add_argument_group("cache")
    caching.add_argument("-n", "--no-cache", action="store_true", help="neither read nor write the cache")
    caching.add_argument("--cache-dir", metavar="FOLDER", help="the folder of the cache (default: .torchlint_cache)")
    settings = parser.add_argument_group("settings")
    add_settings(settings)
    settings.add_argument(
        "--show-settings", action="store_true", help="print the settings of PATH (default: .) and their files"
    )
    settings.add_argument(
        "--allow-plugins",
        action="store_true",
        help="allow settings files to name plugins, whose code is run",
    )
    settings.add_argument(
        "--isolated-files", action="store_true", help="analyse each file without the rest of its project"
    )
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        variable = environment.variable_of(action.option_strings[-1].lstrip("-")) if action.option_strings else None
        if variable is not None:
            action.help = f"{action.help} [env: {variable}]"
    return parser


def _commands() -> str:
    """The commands with their summaries, one line each."""
    return "\n".join(f"  {name:<27}{summary}" for name, summary in SUMMARIES.items())


def make_resolver(options: argparse.Namespace) -> Resolver:
    """Finds settings: those of the files, with the options on top. Raises UsageError."""
    from torchlint.settings.layers import layer_of
    from torchlint.settings.resolver import Resolver

    with usage_errors():
        given = given_settings(options)
        own = layer_of(_settings(options), "command line", os.getcwd())
        layers = [*environment.layers(), *given.layers, own]
    return Resolver(
        layers,
        config=given.config,
        isolated=given.isolated,
        ignore_noqa=options.ignore_noqa,
        isolated_files=options.isolated_files,
        ignore_baseline=options.update_baseline,
        allow_plugins=options.allow_plugins,
        caches=not options.no_cache,
    )


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are settings."""
    given = {key: getattr(options, key.replace("-", "_")) for key in _SAME}
    values = {key: value for key, value in given.items() if value is not None}
    for key in _LISTS:
        words = _listed(getattr(options, key.replace("-", "_")))
        if words is not None:
            values[key] = words
    extended = _listed(options.extend_ignore)
    if extended is not None:
        values["ignore"] = values.get("ignore", []) + extended
    for key in ("per-file-ignores", "extend-per-file-ignores"):
        pairs = _listed(getattr(options, key.replace("-", "_")))
        if pairs is not None:
            values[key] = _per_file_ignores(pairs, key)
    return values


def _listed(values: list[str] | None) -> list[str] | None:
    if values is None:
        return None
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def _per_file_ignores(pairs: list[str], name: str) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for pair in pairs:
        pattern, colon, code = pair.rpartition(":")
        if not colon:
            raise UsageError(f"--{name} takes PATTERN:RULES, not `{pair}`")
        table.setdefault(pattern, []).append(code)
    return table
