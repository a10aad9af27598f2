"""Accepting findings: ``--add-noqa`` and ``--update-baseline``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from torchlint.commands import UsageError, settings_for
from torchlint.engine.results import Result
from torchlint.findings.baseline import Baseline, BaselineError, CheckedFile, load, unknown, updated
from torchlint.findings.codes import INVALID_SYNTAX, UNUSED_SUPPRESSION
from torchlint.output.text import display_path, plural, write_diff
from torchlint.settings.files import File, Found
from torchlint.settings.formats import FOR_PEOPLE
from torchlint.settings.resolver import Resolver
from torchlint.settings.settings import Settings, all_rules


def check_combinations(options: argparse.Namespace, resolver: Resolver) -> None:
    """Raise UsageError if ``--add-noqa`` or ``--update-baseline`` is given with an option that contradicts it."""
    adding = options.add_noqa is not None
    for name, given, others in (
        ("--add-noqa", adding, ("update_baseline", "fix", "fix_only", "ignore_noqa", "watch")),
        ("--update-baseline", options.update_baseline, ("diff", "ignore_noqa", "watch")),
    ):
        for other in others:
            if given and getattr(options, other):
                raise UsageError(f"{name} and --{other.replace('_', '-')} exclude each other")
        if given and "-" in options.paths:
            raise UsageError(f"{name} takes files, not standard input")
    if adding and len(options.add_noqa.splitlines()) > 1:
        raise UsageError("the reason of --add-noqa must be one line")
    if options.update_baseline and not settings_for(resolver, "").baseline:
        raise UsageError("--update-baseline needs a baseline: give --baseline FILE, or set `baseline`")


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether findings are to be suppressed or listed."""
    return options.add_noqa is not None or bool(options.update_baseline)


def adopt(
    options: argparse.Namespace, settings: Settings, found: Found, results: Sequence[Result], out: TextIO
) -> Sequence[Result]:
    """What is left of the results once findings are suppressed or listed, if that is asked for."""
    if options.add_noqa is not None:
        return _add_noqa(options, results, out)
    if options.update_baseline:
        return _update_baseline(options, settings, found.files, results)
    return results


def report_outdated_entries(
    options: argparse.Namespace, settings: Settings, found: Found, results: Sequence[Result], out: TextIO
) -> None:
    """Print how many findings of the baselines no longer occur, if there are any."""
    if options.quiet or options.update_baseline or settings.output_format not in FOR_PEOPLE:
        return
    count = sum(result.resolved for result in results)
    for path in {file.settings.baseline for file in found.files if file.settings.baseline}:
        baseline = load(path)
        count += sum(len(baseline.files[name]) for name in baseline.missing_files())
    if count:
        end = (
            "no longer occurs; --update-baseline removes it"
            if count == 1
            else "no longer occur; --update-baseline removes them"
        )
        print(f"{plural(count, 'finding')} of the baseline {end}.", file=out)


def _add_noqa(options: argparse.Namespace, results: Sequence[Result], out: TextIO) -> list[Result]:
    """Suppress all findings by comments, or show with ``--diff`` how; what is left."""
    from torchlint.engine.add_noqa import add_noqa  # takes long to import

    done = [add_noqa(result, options.add_noqa.strip(), write=not options.diff) for result in results]
    count = sum(added for _, added in done)
    for result, _ in done:
        if options.diff:
            write_diff(result.diff, out)
    if not options.quiet:
        print(f"{'Would add' if options.diff else 'Added'} {plural(count, 'noqa directive')}.", file=sys.stderr)
    return [result for result, _ in done]


def _update_baseline(
    options: argparse.Namespace, settings: Settings, files: Sequence[File], results: Sequence[Result]
) -> list[Result]:
    """Write the findings to the baselines that the settings name; the rest, which no baseline can contain."""
    left = list(results)
    by_baseline: dict[str, list[int]] = {settings.baseline: []}
    for index, file in enumerate(files):
        if file.settings.baseline:
            by_baseline.setdefault(file.settings.baseline, []).append(index)
    for path, indices in by_baseline.items():
        try:
            old = load(path) if os.path.exists(path) else Baseline(path)
            new = updated(old, (_checked(files[index], results[index]) for index in indices))
            if not os.path.exists(path) or new.encode() != old.encode():
                with open(path, "wb") as stream:
                    stream.write(new.encode())
        except BaselineError as error:
            raise UsageError(f"{display_path(path)}: {error}") from error
        except OSError as error:
            raise UsageError(f"{display_path(path)}: cannot be written: {error.strerror or error}") from error
        for index in indices:
            source = results[index].source
            if source is not None:
                remaining, _ = unknown(new, source, results[index].diagnostics, ())
                left[index] = replace(
                    results[index], diagnostics=tuple(remaining), source=source if remaining else None
                )
        if not options.quiet:
            print(_changes(path, old, new), file=sys.stderr)
    return left


def _checked(file: File, result: Result) -> CheckedFile:
    return CheckedFile(result.path, result.source, result.diagnostics, _unchecked(file, result))


def _unchecked(file: File, result: Result) -> frozenset[str]:
    """The codes that this run does not know about in a file: their rules did not run, or raised."""
    every = frozenset(rule.code for rule in all_rules(file.settings.plugins))
    if result.errors or any(diagnostic.code == INVALID_SYNTAX.code for diagnostic in result.diagnostics):
        return every
    checked = {rule.code for rule in file.settings.rules(file.path)}
    if file.settings.enabled(UNUSED_SUPPRESSION.code, file.path):
        checked.add(UNUSED_SUPPRESSION.code)
    return every - checked


def _changes(path: str, old: Baseline, new: Baseline) -> str:
    before, after = _all(old), _all(new)
    changes = f"{len(after - before)} added, {len(before - after)} removed"
    return f"{display_path(path)} lists {plural(len(after), 'finding')} now: {changes}."


def _all(baseline: Baseline) -> set[tuple[str, str]]:
    return {(name, entry.fingerprint) for name, listed in baseline.files.items() for entry in listed}
