"""The report of ``torchlint check``, and its exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from torchlint.commands import CLEAN, FAULT, FINDINGS, UsageError, report_all, report_error, report_warning
from torchlint.settings.formats import FOR_PEOPLE

if TYPE_CHECKING:
    from torchlint.engine.results import Mode, Result
    from torchlint.settings.files import Found
    from torchlint.settings.settings import Settings


def conclude(
    options: argparse.Namespace, settings: Settings, found: Found, results: Sequence[Result], out: TextIO
) -> int:
    """Print errors, report the results, and return the exit status."""
    from torchlint.commands import adopt
    from torchlint.engine.results import Mode

    report_all(*found.errors)
    if not found.files and not found.errors and not options.quiet:
        report_warning("no Python files or notebooks found under the given paths")
    if found.errors and adopt.is_asked_for(options):
        return FAULT  # a path is probably misspelt: nothing is written
    results = adopt.adopt(options, settings, found, results, out)
    failed = report_errors(results) or bool(found.errors)
    mode = mode_of(options, settings)
    profile = None
    if options.profile is not None:
        from torchlint.commands import profiled

        profile = profiled.profile_of(options, settings, results)
        results = profile.with_shares()
    if options.diff and options.add_noqa is not None:
        mode = Mode.DIFF
    else:
        report(options, settings, mode, results, out)
        adopt.report_outdated_entries(options, settings, found, results, out)
    if profile is not None and not options.quiet and settings.output_format in FOR_PEOPLE:
        profiled.write_hot_places(profile, out)
    return FAULT if failed else status(options, settings, mode, results)


def mode_of(options: argparse.Namespace, settings: Settings) -> Mode:
    """How fixes are handled."""
    from torchlint.engine.results import Mode

    if options.add_noqa is not None:
        return Mode.CHECK
    if options.diff:
        return Mode.DIFF
    return Mode.FIX if settings.fix or options.fix_only else Mode.CHECK


def report(options: argparse.Namespace, settings: Settings, mode: Mode, results: Sequence[Result], out: TextIO) -> None:
    """Write the report, the diff or the statistics, and in formats for people a summary."""
    from torchlint import output
    from torchlint.engine.results import Mode
    from torchlint.output import text
    from torchlint.settings import formats

    if mode is Mode.DIFF:
        for result in results:
            text.write_diff(result.diff, out)
        count = sum(len(result.applied) for result in results)
        if not options.quiet:
            would = f"Would fix {text.plural(count, 'finding')}." if count else "No fixes to make."
            print(would, file=sys.stderr)
        return
    shown = [_without_findings(result) for result in results] if options.fix_only else results
    if options.statistics:
        output.write_statistics(settings.output_format, shown, out, unsafe=settings.unsafe_fixes)
    else:
        if settings.output_format not in formats.BY_FILE and (options.profile or options.sort == "gain"):
            shown = _by_gain(shown, settings.device)
        output.write(settings.output_format, shown, out, unsafe=settings.unsafe_fixes)
    if options.quiet or settings.output_format not in formats.FOR_PEOPLE or not results:
        return
    if settings.show_fixes:
        for line in text.applied_lines(results):
            print(line, file=out)
    print(text.summary(results, settings.unsafe_fixes), file=out)


def check_statistics(options: argparse.Namespace, settings: Settings) -> None:
    """Raise UsageError if the format has no statistics."""
    from torchlint.settings.formats import STATISTICS

    if options.statistics and settings.output_format not in STATISTICS:
        known = ", ".join(sorted(STATISTICS))
        raise UsageError(f"--statistics cannot be shown as {settings.output_format}; it can as {known}")


def _by_gain(results: Sequence[Result], device: str) -> list[Result]:
    """One result per finding, those first that pay most.

    What counts is the share of a profile, then the measured speed-up of the rule, then the severity.
    """
    from dataclasses import replace

    from torchlint.findings.diagnostic import Severity
    from torchlint.rule.evidence import gain

    def order(result: Result) -> tuple[float, float, bool]:
        finding = result.diagnostics[0]
        measured = gain(finding.name, device)
        share = finding.share.fraction if finding.share is not None else 0
        speedup = measured.speedup if measured is not None else None
        return share, speedup or 0, finding.severity is Severity.WARNING

    single = [replace(result, diagnostics=(one,)) for result in results for one in result.diagnostics]
    clean = [result for result in results if not result.diagnostics]
    return sorted(single, key=order, reverse=True) + clean


def _without_findings(result: Result) -> Result:
    from dataclasses import replace

    return replace(result, diagnostics=(), source=None)


def status(options: argparse.Namespace, settings: Settings, mode: Mode, results: Sequence[Result]) -> int:
    """The exit status of a run that did not fail."""
    from torchlint.engine.results import Mode

    if options.exit_zero:
        return CLEAN
    if mode is Mode.DIFF:
        return FINDINGS if any(result.diff for result in results) else CLEAN
    if options.exit_non_zero_on_fix and any(result.applied for result in results):
        return FINDINGS
    if options.fix_only:
        return CLEAN
    severities = {found.severity.value for result in results for found in result.diagnostics}
    return FINDINGS if severities and (settings.fail_on == "info" or severities != {"info"}) else CLEAN


def report_errors(results: Sequence[Result]) -> bool:
    """Print the errors of single files; whether there are any."""
    errors = [error for result in results for error in result.errors]
    for error in errors:
        report_error(error)
    return bool(errors)
