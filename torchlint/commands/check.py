"""``torchlint [check] PATH...``: find, fix, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from torchlint.commands import CLEAN, FAULT, FINDINGS, UsageError, complain, settings_for
from torchlint.commands.arguments import parser, resolver

if TYPE_CHECKING:
    from torchlint.files import Found
    from torchlint.runner import Mode, Result
    from torchlint.settings import Resolver, Settings


def run(arguments: Sequence[str]) -> int:
    """Check, and if asked for fix, files and folders; report; and tell by the status whether findings remain."""
    options = parser().parse_intermixed_args(_with_own_reason(arguments))
    if options.paths[:1] == ["check"] and not os.path.exists("check"):
        options.paths = options.paths[1:]  # `torchlint --quiet check src`
    from torchlint.commands import adopt

    found_by = resolver(options)
    adopt.refuse_contradictions(options, found_by)
    if options.sort == "speedup":
        _check_device(settings_for(found_by, ""))
    if options.watch:
        from torchlint.watch import watch

        return watch(options, sys.stdout)
    if options.output_file is None:
        return _check(options, found_by, None)
    from torchlint.output.file import OutputError, report_to

    try:
        with report_to(options.output_file) as out:
            return _check(options, found_by, out)
    except OutputError as error:
        raise UsageError(str(error)) from error


def _check(options: argparse.Namespace, found_by: Resolver, out: TextIO | None) -> int:
    """One run over what ``options`` name, reported to ``out`` or else where the report belongs."""
    if "-" in options.paths:
        if options.paths != ["-"]:
            raise UsageError("`-` (standard input) cannot be checked together with other paths")
        return _check_stdin(options, settings_for(found_by, os.path.dirname(options.stdin_filename or "")), out)
    return check_paths(options, found_by, out or sys.stdout)


def check_paths(options: argparse.Namespace, found_by: Resolver, out: TextIO) -> int:
    """One run over the files that ``options`` name."""
    from torchlint.files import find_files
    from torchlint.output.progress import ProgressBar
    from torchlint.runner import run

    settings = settings_for(found_by, "")
    _check_statistics(options, settings)
    mode = mode_of(options, settings)
    found = find_files(options.paths or ["."], found_by.for_folder)
    with ProgressBar(len(found.files)) as progress:
        results = run(found.files, mode, progress=progress)
    return conclude(options, settings, found, results, out)


def conclude(
    options: argparse.Namespace, settings: Settings, found: Found, results: Sequence[Result], out: TextIO
) -> int:
    """Say what is at fault, report the results of the files that were found, and return the exit status."""
    from torchlint.commands import adopt
    from torchlint.runner import Mode

    for error in found.errors:
        complain(error)
    if not found.files and not found.errors and not options.quiet:
        print("warning: no Python files or notebooks found under the given paths", file=sys.stderr)
    if found.errors and adopt.is_asked_for(options):
        return FAULT  # a path that was meant otherwise: nothing is written yet
    results = adopt.adopt(options, settings, found, results, out)
    failed = _complain_about(results) or bool(found.errors)
    mode = mode_of(options, settings)
    if options.diff and options.add_noqa is not None:
        mode = Mode.DIFF
    else:
        _report(options, settings, mode, results, out)
        adopt.tell_what_is_gone(options, settings, found, results, out)
    return FAULT if failed else _status(options, mode, results)


def _with_own_reason(arguments: Sequence[str]) -> list[str]:
    """The arguments, with a bare ``--add-noqa`` kept from taking a path for its reason."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return ["--add-noqa=" if word == "--add-noqa" and i < end else word for i, word in enumerate(arguments)]


def _check_stdin(options: argparse.Namespace, settings: Settings, out: TextIO | None) -> int:
    from torchlint.checker import unreadable
    from torchlint.files import is_excluded
    from torchlint.runner import Mode, Result, run_source
    from torchlint.source import Source, SourceError

    _check_statistics(options, settings)
    mode = mode_of(options, settings)
    path = options.stdin_filename or "-"
    data = sys.stdin.buffer.read()
    if settings.force_exclude and options.stdin_filename and is_excluded(path, settings):
        if mode is Mode.FIX:
            sys.stdout.buffer.write(data)
        return CLEAN
    try:
        source = Source.from_bytes(data, path)
        result, fixed = run_source(source, settings, mode)
        content = data if fixed is source else fixed.to_bytes()
    except SourceError as error:
        content = data
        result = Result(path, tuple(unreadable(path, error, settings)), Source.from_text("", path))
    failed = _complain_about([result])
    if mode is Mode.FIX:  # standard output is the file now; what is left to say goes to standard error
        sys.stdout.buffer.write(content)
    _report(options, settings, mode, [result], out or (sys.stderr if mode is Mode.FIX else sys.stdout))
    return FAULT if failed else _status(options, mode, [result])


def mode_of(options: argparse.Namespace, settings: Settings) -> Mode:
    """What is to be done with fixes."""
    from torchlint.runner import Mode

    if options.add_noqa is not None:
        return Mode.CHECK
    if options.diff:
        return Mode.DIFF
    return Mode.FIX if settings.fix or options.fix_only else Mode.CHECK


def _report(
    options: argparse.Namespace, settings: Settings, mode: Mode, results: Sequence[Result], out: TextIO
) -> None:
    from torchlint import output
    from torchlint.output import text
    from torchlint.runner import Mode

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
    if options.statistics:
        output.write_statistics(settings.output_format, results, out, unsafe=settings.unsafe_fixes)
    else:
        by_gain = options.sort == "speedup" and settings.output_format not in output.BY_FILE
        shown = _by_gain(results, settings) if by_gain else results
        output.write(settings.output_format, shown, out, unsafe=settings.unsafe_fixes)
    if options.quiet or settings.output_format not in output.FOR_PEOPLE:
        return
    if settings.show_fixes:
        for line in text.applied_lines(results):
            print(line, file=out)
    print(text.summary(results, settings.unsafe_fixes), file=out)


def _check_statistics(options: argparse.Namespace, settings: Settings) -> None:
    """Raise UsageError if there are no statistics in the format."""
    from torchlint.output import STATISTICS

    if options.statistics and settings.output_format not in STATISTICS:
        known = ", ".join(sorted(STATISTICS))
        raise UsageError(f"--statistics cannot be shown as {settings.output_format}; it can as {known}")


def _check_device(settings: Settings) -> None:
    """Raise UsageError if nothing was measured where the gain is looked up."""
    from torchlint.evidence import nothing_on

    missing = nothing_on(settings.device)
    if missing:
        raise UsageError(f"--sort speedup: {missing}")


def _by_gain(results: Sequence[Result], settings: Settings) -> list[Result]:
    """One result per finding: those that were measured to bring most first, those without a figure last."""
    from dataclasses import replace

    from torchlint.evidence import gain

    def speedup(result: Result) -> float:
        measured = gain(result.diagnostics[0].code, settings.device) if result.diagnostics else None
        return (measured.speedup or 0) if measured is not None else 0

    single = [replace(result, diagnostics=(one,)) for result in results for one in result.diagnostics]
    clean = [result for result in results if not result.diagnostics]
    return sorted(single, key=speedup, reverse=True) + clean


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


def _complain_about(results: Sequence[Result]) -> bool:
    errors = [error for result in results for error in result.errors]
    for error in errors:
        complain(error)
    return bool(errors)
