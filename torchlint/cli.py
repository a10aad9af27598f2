"""The command line: arguments -> settings -> run -> report -> exit status."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from torchlint import __version__

if TYPE_CHECKING:
    from torchlint.runner import Mode, Result
    from torchlint.settings import Resolver, Settings

CLEAN, FINDINGS, FAULT = 0, 1, 2
_INTERRUPTED = 130

_COMMANDS = ("check", "explain", "rules")


class UsageError(Exception):
    """The command line is at fault; the text is one line for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 clean, 1 findings remain, 2 something is at fault."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name or a line of code must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except UsageError as error:
        _complain(str(error))
        return FAULT
    except BrokenPipeError:  # the reader has seen enough, as in `torchlint | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except KeyboardInterrupt:
        _complain("interrupted")
        return _INTERRUPTED


def _dispatch(arguments: list[str]) -> int:
    command = arguments[0] if arguments else ""
    if command == "explain":
        return _explain(_explain_parser().parse_args(arguments[1:]))
    if command == "rules":
        return _rules(_rules_parser().parse_args(arguments[1:]))
    options = _check_parser().parse_args(arguments[1:] if command == "check" else arguments)
    if options.paths[:1] == ["check"] and command != "check" and not os.path.exists("check"):
        options.paths = options.paths[1:]  # `torchlint --quiet check src`
    return _check(options)


class _Parser(argparse.ArgumentParser):
    """Complains in one line, naming the nearest option."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            word = message.split()[2].partition("=")[0]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            close = difflib.get_close_matches(word, known, n=1)
            message = f"unknown option `{word}`" + (f"; did you mean `{close[0]}`?" if close else "; see --help")
        raise UsageError(message)


def _check_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="torchlint",
        usage="torchlint [check] [OPTIONS] [PATH...]\n       torchlint explain CODE-OR-NAME\n       torchlint rules",
        description="Find and fix PyTorch performance anti-patterns.",
        epilog="Exit status: 0 nothing left to report, 1 findings remain, 2 the command line, a setting or torchlint "
        "itself is at fault.",
        allow_abbrev=False,
    )
    switch = argparse.BooleanOptionalAction
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: .); - is standard input")
    parser.add_argument("--version", action="version", version=f"torchlint {__version__}")
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
    rules.add_argument("--ignore-noqa", action="store_true", help="report what `# noqa` comments suppress")
    files = parser.add_argument_group("files")
    files.add_argument("--exclude", action="append", metavar="PATTERNS", help="paths to leave out (comma-separated)")
    files.add_argument("--extend-exclude", action="append", metavar="PATTERNS", help="paths to leave out as well")
    files.add_argument("--respect-gitignore", action=switch, help="leave out what git ignores (default)")
    files.add_argument("--force-exclude", action=switch, help="leave out excluded files even if they are named")
    files.add_argument("--stdin-filename", metavar="FILE", help="the name of the file that standard input holds")
    report = parser.add_argument_group("report")
    report.add_argument("--output-format", metavar="FORMAT", help="full (default), concise or json")
    report.add_argument("--statistics", action="store_true", help="count the findings of each rule instead")
    report.add_argument("-q", "--quiet", action="store_true", help="print findings only, no summary")
    report.add_argument("-e", "--exit-zero", action="store_true", help="exit with 0 even if findings remain")
    report.add_argument(
        "--exit-non-zero-on-fix", action="store_true", help="exit with 1 if files were fixed, even if nothing is left"
    )
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--config", action="append", metavar="FILE|KEY=VALUE", help="a settings file, or one setting in TOML"
    )
    settings.add_argument("--isolated", action="store_true", help="read no settings files")
    return parser


def _explain_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="torchlint explain", description="Show a rule's page.", allow_abbrev=False)
    parser.add_argument("rule", nargs="?", metavar="CODE-OR-NAME")
    parser.add_argument("--all", action="store_true", help="show the pages of all rules")
    return parser


def _rules_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="torchlint rules", description="List the rules.", allow_abbrev=False)
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    return parser


def _check(options: argparse.Namespace) -> int:
    from torchlint.files import find_files
    from torchlint.output.progress import ProgressBar
    from torchlint.runner import Mode, run

    resolver = _resolver(options)
    settings = _settings_for(resolver, os.path.dirname(options.stdin_filename or "") if options.paths == ["-"] else "")
    mode = Mode.DIFF if options.diff else Mode.FIX if settings.fix or options.fix_only else Mode.CHECK
    if "-" in options.paths:
        if options.paths != ["-"]:
            raise UsageError("`-` (standard input) cannot be checked together with other paths")
        return _check_stdin(options, settings, mode)
    found = find_files(options.paths or ["."], resolver.for_folder)
    for error in found.errors:
        _complain(error)
    if not found.files and not found.errors and not options.quiet:
        print("warning: no Python files found under the given paths", file=sys.stderr)
    with ProgressBar(len(found.files)) as progress:
        results = run(found.files, mode, progress=progress)
    failed = _complain_about(results) or bool(found.errors)
    _report(options, settings, mode, results)
    return FAULT if failed else _status(options, mode, results)


def _check_stdin(options: argparse.Namespace, settings: Settings, mode: Mode) -> int:
    from torchlint.checker import unreadable
    from torchlint.files import is_excluded
    from torchlint.runner import Mode, Result, run_source
    from torchlint.source import Source, SourceError

    path = options.stdin_filename or "-"
    data = sys.stdin.buffer.read()
    if settings.force_exclude and options.stdin_filename and is_excluded(path, settings):
        if mode is Mode.FIX:
            sys.stdout.buffer.write(data)
        return CLEAN
    try:
        source = Source.from_bytes(data, path)
        result, fixed = run_source(source, settings, mode)
        content = data if fixed is source else fixed.encode(fixed.text)
    except SourceError as error:
        content = data
        result = Result(path, tuple(unreadable(path, error, settings)), Source.from_text("", path))
    failed = _complain_about([result])
    if mode is Mode.FIX:  # standard output is the file now; what is left to say goes to standard error
        sys.stdout.buffer.write(content)
    _report(options, settings, mode, [result], to_stderr=mode is Mode.FIX)
    return FAULT if failed else _status(options, mode, [result])


def _report(
    options: argparse.Namespace, settings: Settings, mode: Mode, results: list[Result], *, to_stderr: bool = False
) -> None:
    from torchlint.output import text
    from torchlint.runner import Mode

    out = sys.stderr if to_stderr else sys.stdout
    if mode is Mode.DIFF:
        for result in results:
            out.write(result.diff)
        count = sum(len(result.applied) for result in results)
        if not options.quiet:
            would = f"Would fix {text.plural(count, 'finding')}." if count else "No fixes to make."
            print(would, file=sys.stderr)
        return
    if options.fix_only:
        results = [_without_findings(result) for result in results]
    if settings.output_format == "json":
        from torchlint.output import json

        print(json.report_statistics(results) if options.statistics else json.report(results), file=out)
        return
    if options.statistics:
        lines = text.statistics_lines(results)
    elif settings.output_format == "concise":
        from torchlint.output import concise

        lines = list(concise.lines(results, settings.unsafe_fixes))
    else:
        from torchlint.output import full

        full.write(results, out)
        lines = []
    for line in lines:
        print(line, file=out)
    if options.quiet:
        return
    if settings.show_fixes:
        for line in text.applied_lines(results):
            print(line, file=out)
    print(text.summary(results, settings.unsafe_fixes), file=out)


def _without_findings(result: Result) -> Result:
    from dataclasses import replace

    return replace(result, diagnostics=(), source=None)


def _status(options: argparse.Namespace, mode: Mode, results: Sequence[Result]) -> int:
    from torchlint.runner import Mode

    if options.exit_zero:
        return CLEAN
    if mode is Mode.DIFF:
        return FINDINGS if any(result.diff for result in results) else CLEAN
    if options.exit_non_zero_on_fix and any(result.applied for result in results):
        return FINDINGS
    if options.fix_only:
        return CLEAN
    return FINDINGS if any(result.diagnostics for result in results) else CLEAN


def _explain(options: argparse.Namespace) -> int:
    from torchlint.output.pages import write_pages
    from torchlint.registry import find_rule

    rules = _known_rules()
    if not options.all:
        if options.rule is None:
            raise UsageError("which rule? `torchlint explain TL101`, or `torchlint explain --all`")
        rule = find_rule(rules, options.rule)
        if rule is None:
            names = [word for rule in rules for word in (rule.code, rule.name)]
            close = difflib.get_close_matches(options.rule.lower(), [name.lower() for name in names], n=1)
            hint = next((f"; did you mean `{name}`?" for name in names if [name.lower()] == close), "")
            raise UsageError(f"unknown rule `{options.rule}`{hint or '; `torchlint rules` lists them'}")
        rules = [rule]
    write_pages(rules, sys.stdout)
    return CLEAN


def _rules(options: argparse.Namespace) -> int:
    from torchlint.output.pages import table_json, write_table

    if options.output_format == "json":
        print(table_json(_known_rules()))
    else:
        write_table(_known_rules(), sys.stdout)
    return CLEAN


def _known_rules() -> list[Any]:
    from torchlint.settings import Resolver, all_rules

    return list(all_rules(_settings_for(Resolver(), "").plugins))


def _resolver(options: argparse.Namespace) -> Resolver:
    from torchlint.settings import Resolver, SettingsError, inline_layer, layer_of

    values: dict[str, Any] = {}
    for key in ("fix", "unsafe-fixes", "show-fixes", "respect-gitignore", "force-exclude", "output-format"):
        value = getattr(options, key.replace("-", "_"))
        if value is not None:
            values[key] = value
    for key in ("select", "extend-select", "ignore", "exclude", "extend-exclude"):
        given = _listed(getattr(options, key.replace("-", "_")))
        if given is not None:
            values[key] = given
    extended = _listed(options.extend_ignore)
    if extended is not None:
        values["ignore"] = values.get("ignore", []) + extended
    if options.per_file_ignores is not None:
        values["per-file-ignores"] = _per_file_ignores(_listed(options.per_file_ignores) or [])
    config = None
    layers = []
    try:
        for given in options.config or ():
            if "=" in given and not os.path.exists(given):
                layers.append(inline_layer(given))
            elif config is not None:
                raise UsageError(f"--config names two files: {config} and {given}")
            elif options.isolated:
                raise UsageError("--config with a file and --isolated exclude each other")
            else:
                config = given
        layers.append(layer_of(values, "command line", os.getcwd()))
    except SettingsError as error:
        raise UsageError(str(error)) from error
    return Resolver(layers, config=config, isolated=options.isolated, ignore_noqa=options.ignore_noqa)


def _settings_for(resolver: Resolver, folder: str) -> Settings:
    from torchlint.settings import SettingsError

    try:
        return resolver.for_folder(folder or ".")
    except SettingsError as error:
        raise UsageError(str(error)) from error


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


def _complain_about(results: Sequence[Result]) -> bool:
    errors = [error for result in results for error in result.errors]
    for error in errors:
        _complain(error)
    return bool(errors)


def _complain(message: str) -> None:
    from torchlint.output.text import printable

    print(f"error: {printable(message)}", file=sys.stderr)
