"""The arguments of ``torchlint check``, and the settings they stand for."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from torchlint import __version__
from torchlint.commands import SUMMARIES, Parser, UsageError
from torchlint.settings.formats import FORMATS

if TYPE_CHECKING:
    from torchlint.settings.resolver import Resolver

#: Options that are settings too, under the same name.
_SAME = (
    "fix",
    "unsafe-fixes",
    "show-fixes",
    "respect-gitignore",
    "force-exclude",
    "output-format",
    "baseline",
    "min-speedup",
    "device",
    "timeout",
    "cache-dir",
)
_LISTS = ("select", "extend-select", "ignore", "exclude", "extend-exclude")


def parser() -> Parser:
    """The parser of ``torchlint check``."""
    parser = Parser(
        prog="torchlint",
        usage="torchlint [check] [OPTIONS] [PATH...]\n       torchlint COMMAND ...",
        description="Find and fix PyTorch performance anti-patterns.",
        epilog=f"commands:\n{_commands()}\n\n`torchlint help COMMAND` shows the options of a command.\n"
        "Exit status: 0 no findings, 1 findings remain, 2 usage, configuration or internal error.",
    )
    switch = argparse.BooleanOptionalAction
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: .); - is standard input")
    parser.add_argument("-V", "--version", action="version", version=f"torchlint {__version__}")
    parser.add_argument("-w", "--watch", action="store_true", help="check again whenever a file changes")
    fixing = parser.add_argument_group("fixes")
    fixing.add_argument("--fix", action=switch, help="apply safe fixes")
    fixing.add_argument("--unsafe-fixes", action=switch, help="take fixes that may change results or behaviour as well")
    fixing.add_argument("--show-fixes", action=switch, help="list the fixes that were made")
    fixing.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    fixing.add_argument("--fix-only", action="store_true", help="apply fixes and do not report what is left")
    rules = parser.add_argument_group("rules")
    for name, what in (
        ("--select", "rules to run: codes, prefixes, names or ALL"),
        ("--extend-select", "rules to run beside those selected"),
        ("--ignore", "rules not to run"),
        ("--extend-ignore", "the same as --ignore"),
    ):
        rules.add_argument(name, action="append", metavar="RULES", help=f"{what} (comma-separated)")
    rules.add_argument(
        "--per-file-ignores", action="append", metavar="PATTERN:RULES", help="rules not to run in the files that match"
    )
    rules.add_argument(
        "--min-speedup", type=float, metavar="FACTOR", help="run only rules that were measured to bring at least this"
    )
    rules.add_argument("--device", metavar="NAME", help="where it was measured: GPU, CPU, or a part of a device's name")
    adopting = parser.add_argument_group("adopting")
    adopting.add_argument("--ignore-noqa", action="store_true", help="report what `# noqa` comments suppress")
    adopting.add_argument(
        "--add-noqa", nargs="?", const="", metavar="=REASON", help="suppress all findings with `# noqa` comments"
    )
    adopting.add_argument("--baseline", metavar="FILE", help="report only findings that this file does not list")
    adopting.add_argument("--update-baseline", action="store_true", help="write the findings to the baseline file")
    files = parser.add_argument_group("files")
    files.add_argument("--exclude", action="append", metavar="PATTERNS", help="paths to leave out (comma-separated)")
    files.add_argument("--extend-exclude", action="append", metavar="PATTERNS", help="paths to leave out as well")
    files.add_argument("--respect-gitignore", action=switch, help="leave out what git ignores (default)")
    files.add_argument("--force-exclude", action=switch, help="leave out excluded files even if they are named")
    files.add_argument("--stdin-filename", metavar="FILE", help="the name of the file that standard input holds")
    files.add_argument("--timeout", type=float, metavar="SECONDS", help="CPU time that a file may take (default: 10)")
    report = parser.add_argument_group("report")
    report.add_argument("--output-format", metavar="FORMAT", help=f"one of {', '.join(FORMATS)} (default: full)")
    report.add_argument("-o", "--output-file", metavar="FILE", help="write the report to a file")
    report.add_argument("--statistics", action="store_true", help="count the findings of each rule instead")
    report.add_argument(
        "--sort", choices=("location", "speedup"), default="location", help="what to show first (default: location)"
    )
    report.add_argument("--timing", action="store_true", help="show where the time went: phases, rules, slowest files")
    report.add_argument("-q", "--quiet", action="store_true", help="print findings only, no summary")
    report.add_argument("-e", "--exit-zero", action="store_true", help="exit with 0 even if findings remain")
    report.add_argument(
        "--exit-non-zero-on-fix", action="store_true", help="exit with 1 if files were fixed, even if nothing is left"
    )
    caching = parser.add_argument_group("cache")
    caching.add_argument("-n", "--no-cache", action="store_true", help="analyse every file, and keep no results")
    caching.add_argument("--cache-dir", metavar="FOLDER", help="where results are kept (default: .torchlint_cache)")
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--config", action="append", metavar="FILE|KEY=VALUE", help="a settings file, or one setting in TOML"
    )
    settings.add_argument("--isolated", action="store_true", help="read no settings files")
    settings.add_argument(
        "--allow-plugins",
        action="store_true",
        help="import the plugins that settings files name, which runs their code",
    )
    settings.add_argument(
        "--isolated-files", action="store_true", help="analyse each file by itself, without the project around it"
    )
    return parser


def _commands() -> str:
    """The commands with their summaries, one line each."""
    return "\n".join(f"  {name:<27}{summary}" for name, summary in SUMMARIES.items())


def make_resolver(options: argparse.Namespace) -> Resolver:
    """Finds settings: those of the files, with the options on top. Raises UsageError."""
    from torchlint.settings.layers import SettingsError, inline_layers, layer_of
    from torchlint.settings.resolver import Resolver

    config = None
    layers = []
    try:
        for given in options.config or ():
            if "=" in given and not os.path.exists(given):
                layers += inline_layers(given)
            elif config is not None:
                raise UsageError(f"--config names two files: {config} and {given}")
            elif options.isolated:
                raise UsageError("--config with a file and --isolated exclude each other")
            else:
                config = given
        layers.append(layer_of(_settings(options), "command line", os.getcwd()))
    except SettingsError as error:
        raise UsageError(str(error), causes=(error,)) from error
    return Resolver(
        layers,
        config=config,
        isolated=options.isolated,
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
    if options.per_file_ignores is not None:
        values["per-file-ignores"] = _per_file_ignores(_listed(options.per_file_ignores) or [])
    return values


def _listed(values: list[str] | None) -> list[str] | None:
    if values is None:
        return None
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def _per_file_ignores(pairs: list[str]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for pair in pairs:
        pattern, colon, code = pair.rpartition(":")
        if not colon:
            raise UsageError(f"--per-file-ignores takes PATTERN:RULES, not `{pair}`")
        table.setdefault(pattern, []).append(code)
    return table
