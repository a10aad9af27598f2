"""``torchlint [check] PATH...``: find, fix, report."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from torchlint.commands import (
    CLEAN,
    COMMANDS,
    FAULT,
    SYNONYMS,
    UsageError,
    environment,
    report_all,
    report_evidence_problems,
    report_warning,
    settings_for,
)
from torchlint.commands.arguments import make_resolver, parser
from torchlint.commands.conclusion import check_statistics, conclude, mode_of, report, report_errors, status

if TYPE_CHECKING:
    from torchlint.settings.files import File
    from torchlint.settings.resolver import Resolver
    from torchlint.settings.settings import Settings


def run(arguments: Sequence[str]) -> int:
    """Check and fix files and folders, print the report, and return the exit status."""
    options = parser().options_and_paths(_with_own_reason(arguments))
    _check_place_of_command(arguments, options.paths)
    if options.stdin_filename is not None:
        _read_standard_input(options)
    from torchlint.commands import adopt

    options.no_cache = options.no_cache or environment.is_cache_off()
    options.output_file = options.output_file or environment.output_file()
    resolver = make_resolver(options)
    adopt.check_combinations(options, resolver)
    if options.show_settings or options.show_files:
        return _show(options, resolver)
    settings = settings_for(resolver, "")
    for warning in settings.warnings:
        report_warning(warning)
    if options.sort == "gain":
        _check_device(settings, resolver)
    if options.profile is not None:
        from torchlint.commands.profiled import read

        read(options, settings)
    if options.watch:
        from torchlint.commands.watch import watch

        return watch(options, sys.stdout)
    if options.output_file is None:
        return _check(options, resolver, io.StringIO() if options.silent else None)
    from torchlint.output.file import OutputError, report_to

    try:
        with report_to(options.output_file) as out:
            return _check(options, resolver, out)
    except OutputError as error:
        raise UsageError(str(error)) from error


def _show(options: argparse.Namespace, resolver: Resolver) -> int:
    """List the files that would be checked, or the settings of the first path."""
    from torchlint.settings.files import find_files

    if options.show_settings:
        from torchlint.commands.config import show

        show(resolver, (options.paths or ["."])[0], "text", sys.stdout)
        return CLEAN
    found = find_files(options.paths or ["."], resolver.for_folder)
    report_all(*found.errors)
    for file in found.files:
        print(os.path.abspath(file.path))
    return FAULT if found.errors else CLEAN


def _read_standard_input(options: argparse.Namespace) -> None:
    """Replace the paths by ``-``: with ``--stdin-filename``, standard input is checked and nothing else."""
    for path in options.paths:
        if path != "-":
            report_warning(f"{path} is ignored: --stdin-filename reads standard input")
    options.paths = ["-"]


def _check(options: argparse.Namespace, resolver: Resolver, out: TextIO | None) -> int:
    """One run over what ``options`` name, reported to ``out`` or else where the report belongs."""
    if "-" in options.paths:
        if options.paths != ["-"]:
            raise UsageError("`-` (standard input) cannot be checked together with other paths")
        return _check_stdin(options, resolver, out)
    return check_paths(options, resolver, out or sys.stdout)


def check_paths(options: argparse.Namespace, resolver: Resolver, out: TextIO) -> int:
    """One run over the files that ``options`` name."""
    from torchlint.engine.results import Mode
    from torchlint.engine.runner import run
    from torchlint.output.progress import ProgressBar
    from torchlint.output.text import display_path
    from torchlint.settings.files import find_files

    start = time.perf_counter()
    timing = options.timing or options.verbose
    settings = settings_for(resolver, "")
    check_statistics(options, settings)
    mode = mode_of(options, settings)
    found = find_files(options.paths or ["."], resolver.for_folder)
    cache = None if options.no_cache else resolver.cache(".")
    before = _identities(found.files) if mode is Mode.FIX else {}
    try:
        with ProgressBar(len(found.files)) as progress:
            results = run(found.files, mode, progress=progress, cache=cache, timing=timing)
    except KeyboardInterrupt:
        after = _identities(found.files) if before else {}
        for path in (path for path in before if after.get(path) != before[path]):
            print(f"fixed before the interruption: {display_path(path)}", file=sys.stderr)
        raise
    status = conclude(options, settings, found, results, out)
    report_evidence_problems()
    if options.verbose:
        from torchlint.commands.verbose import describe

        describe(resolver, settings, cache, results, time.perf_counter() - start)
    if options.timing:
        from torchlint.output import timing as times

        times.write(results, time.perf_counter() - start, sys.stderr)
    return status


def _identities(files: Sequence[File]) -> dict[str, tuple[int, int]]:
    """By path, what differs once a file has been replaced."""
    found = {}
    for file in files:
        with contextlib.suppress(OSError):
            status = os.stat(file.path)
            found[file.path] = status.st_ino, status.st_mtime_ns
    return found


def _with_own_reason(arguments: Sequence[str]) -> list[str]:
    """The arguments, with a bare ``--add-noqa`` kept from taking a path for its reason."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return ["--add-noqa=" if word == "--add-noqa" and i < end else word for i, word in enumerate(arguments)]


def _check_place_of_command(arguments: Sequence[str], paths: Sequence[str]) -> None:
    """Raise UsageError if the first of the paths, which does not exist, is a command that options precede."""
    word = paths[0] if paths else ""
    if word in (*COMMANDS, *SYNONYMS) and arguments[0] not in (word, "--") and not os.path.lexists(word):
        raise UsageError(f"{word}: no such file or folder; give the command before its options: `torchlint {word} ...`")


def _check_stdin(options: argparse.Namespace, resolver: Resolver, out: TextIO | None) -> int:
    from torchlint.engine.results import Mode, Result
    from torchlint.engine.runner import run_text
    from torchlint.settings.files import File, is_excluded
    from torchlint.source import reading
    from torchlint.source.source import Source, SourceError

    settings = settings_for(resolver, os.path.dirname(options.stdin_filename or ""))
    check_statistics(options, settings)
    mode = mode_of(options, settings)
    cache = None if options.no_cache or options.stdin_filename is None else resolver.cache(".")
    path = options.stdin_filename or "-"
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    data = sys.stdin.buffer.read()
    if settings.force_exclude and options.stdin_filename and is_excluded(path, settings):
        if mode is Mode.FIX:
            sys.stdout.buffer.write(data)
        return CLEAN
    try:
        source = reading.from_bytes(data, path)
        result, fixed = run_text(source, File(path, settings, named=True), mode, cache=cache)
        content = data
        if fixed is not source:
            from torchlint.engine.fixer import content_of

            content = content_of(source, fixed)
    except SourceError as error:
        from torchlint.engine.checker import unreadable

        content = data
        result = Result(path, tuple(unreadable(path, error, settings)), Source.from_text("", path))
    failed = report_errors([result])
    if mode is Mode.FIX:  # standard output is the file now; what is left to say goes to standard error
        sys.stdout.buffer.write(content)
    report(options, settings, mode, [result], out or (sys.stderr if mode is Mode.FIX else sys.stdout))
    return FAULT if failed else status(options, settings, mode, [result])


def _check_device(settings: Settings, resolver: Resolver) -> None:
    """Warn if findings are not sorted by speed-ups on a GPU. Raise UsageError if a device is set that has none."""
    from torchlint.rule.evidence import nothing_on
    from torchlint.settings.combination import ON_CPU

    missing = nothing_on(settings.device)
    if any("device" in layer.values for layer in resolver.layers("")):
        if missing:
            raise UsageError(f"--sort gain: {missing}")
    elif missing:
        report_warning("--sort gain: there are no measurements yet; findings are sorted by severity")
    elif settings.device == "CPU":
        report_warning(f"--sort gain: {ON_CPU}")
