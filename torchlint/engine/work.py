"""One file, or some: read, checked and, if requested, fixed. No file content raises an error here."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence
from dataclasses import replace

from torchlint.engine.checker import InternalError, basis, check, unreadable
from torchlint.engine.fixer import WriteError, fix, unified_diff, write
from torchlint.engine.results import Mode, Request, Result
from torchlint.project.context import forget
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.source import Source, SourceError
from torchlint.source.timing import count, recorded


def run_file(file: File, request: Request) -> Result:
    """Check, and by the mode of a request fix, one file."""
    if not request.timing:
        return _run_file(file, request)
    with recorded() as timing:
        result = _run_file(file, request)
    return replace(result, timing=timing)


def _run_file(file: File, request: Request) -> Result:
    try:
        source = reading.read(file.path)
    except SourceError as error:
        found = tuple(unreadable(file.path, error, file.settings))
        return Result(file.path, found, Source.from_text("", file.path))
    except OSError as error:
        return Result(file.path, errors=(f"{file.path}: cannot be read: {error.strerror or error}",))
    count("characters", len(source.text))
    mode = request.mode
    result, fixed = run_source(source, file.settings, mode, syntax=file.named)
    if mode is Mode.FIX and fixed is not source:
        try:
            write(source, fixed)
        except WriteError as error:
            unfixed, _ = run_source(source, file.settings, Mode.CHECK, syntax=file.named)
            return replace(unfixed, errors=(*unfixed.errors, str(error)))
    if request.basis and mode is Mode.CHECK and not result.errors:
        return with_basis(result, source, file.settings)
    return result


def with_basis(result: Result, source: Source, settings: Settings) -> Result:
    """The result of a text, with what it depends on, so that it can be kept."""
    return replace(result, basis=basis(source, settings, result.diagnostics))


def run_source(source: Source, settings: Settings, mode: Mode, *, syntax: bool = True) -> tuple[Result, Source]:
    """Check, and by ``mode`` fix, a text; and the text as fixed."""
    errors: list[str] = []

    def on_crash(crash: InternalError) -> None:
        if str(crash) not in errors:
            errors.append(str(crash))

    if mode is Mode.CHECK:
        resolved: list[int] = []
        found = tuple(check(source, settings, syntax=syntax, on_crash=on_crash, on_resolved=resolved.append))
        result = Result(source.path, found, source if found else None, errors=tuple(errors), resolved=sum(resolved))
        return result, source
    fixed = fix(source, settings, syntax=syntax, on_crash=on_crash)
    result = Result(
        path=source.path,
        diagnostics=tuple(fixed.diagnostics),
        source=fixed.source if fixed.diagnostics else None,
        applied=tuple((diagnostic.code, diagnostic.fix.message) for diagnostic in fixed.applied if diagnostic.fix),
        diff=unified_diff(source, fixed.source) if mode is Mode.DIFF else "",
        errors=(*errors, *fixed.errors),
    )
    return result, fixed.source


#: The last run that this process served, if several may ask for it.
_run = 0


def run_chunk(files: Sequence[File], request: Request) -> list[Result]:
    """The results of some files, in order. For another run, projects are read again: files may have changed."""
    global _run
    if request.run != _run:
        _run = request.run
        forget()
    return [run_file(file, request) for file in files]


def prepare() -> None:
    """What a new process does first."""
    gc.disable()  # as `run` does
    # The parent reports an interruption; a child ends at once. A signal waits while a file is replaced.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
