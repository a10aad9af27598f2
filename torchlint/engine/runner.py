"""Many files: one after the other or in processes, in the same order either way; a crash costs one file."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from enum import Enum

from torchlint.engine.checker import InternalError, check, unreadable
from torchlint.engine.fixer import WriteError, fix, unified_diff, write
from torchlint.findings.diagnostic import Diagnostic
from torchlint.project.context import forget
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.parsing import garbage_collection_paused
from torchlint.source.source import Source, SourceError

#: Below this much text a pool of processes costs more than it brings.
_SMALL = 64 * 1024
#: Files that go to a process at once: enough to make the way there cheap, few enough to share the work evenly.
_CHUNK = 32


class Mode(Enum):
    """What is done with fixes."""

    CHECK = "check"
    FIX = "fix"
    DIFF = "diff"


@dataclass(frozen=True)
class Result:
    """What came out of one file."""

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    #: the text the diagnostics are about; None if there are none
    source: Source | None = None
    applied: tuple[tuple[str, str], ...] = ()  #: code and message of each fix that was made
    diff: str = ""
    errors: tuple[str, ...] = ()  #: one line each: crashed rules, files that cannot be read or written
    gone: int = 0  #: how many findings the baseline lists that are no longer there


def run(
    files: Sequence[File],
    mode: Mode = Mode.CHECK,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """The results of ``files``, in their order. ``progress`` is told after each step how many are done.

    Any ``executor`` can serve; without one, processes are started if there is work for them.
    """
    forget()  # files may have changed since the last run
    results: dict[int, Result] = {}
    with garbage_collection_paused():
        for index, result in _results(files, mode, executor):
            results[index] = result
            if progress is not None:
                progress(len(results))
    return [results[index] for index in range(len(files))]


def run_file(file: File, mode: Mode) -> Result:
    """Check, and by ``mode`` fix, one file. Nothing in its content makes this raise."""
    try:
        source = reading.read(file.path)
    except SourceError as error:
        found = tuple(unreadable(file.path, error, file.settings))
        return Result(file.path, found, Source.from_text("", file.path))
    except OSError as error:
        return Result(file.path, errors=(f"{file.path}: cannot be read: {error.strerror or error}",))
    result, fixed = run_source(source, file.settings, mode, syntax=file.named)
    if mode is Mode.FIX and fixed is not source:
        try:
            write(source, fixed)
        except WriteError as error:
            unfixed, _ = run_source(source, file.settings, Mode.CHECK, syntax=file.named)
            return replace(unfixed, errors=(*unfixed.errors, str(error)))
    return result


def run_source(source: Source, settings: Settings, mode: Mode, *, syntax: bool = True) -> tuple[Result, Source]:
    """Check, and by ``mode`` fix, a text; and the text as fixed."""
    errors: list[str] = []

    def on_crash(crash: InternalError) -> None:
        if str(crash) not in errors:
            errors.append(str(crash))

    if mode is Mode.CHECK:
        gone: list[int] = []
        found = tuple(check(source, settings, syntax=syntax, on_crash=on_crash, on_gone=gone.append))
        return Result(source.path, found, source if found else None, errors=tuple(errors), gone=sum(gone)), source
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


#: Whether this process was interrupted while it fixes files: it ends behind the file that it may be writing.
_interrupted = False


def _run_chunk(files: Sequence[File], mode: Mode) -> list[Result]:
    results = []
    for file in files:
        left_out = Result(file.path, errors=(f"{file.path}: interrupted; it was left out",))
        results.append(left_out if _interrupted else run_file(file, mode))
    return results


def _results(files: Sequence[File], mode: Mode, executor: Executor | None) -> Iterator[tuple[int, Result]]:
    workers = _workers(files)
    if executor is None and workers < 2:
        yield from ((index, run_file(file, mode)) for index, file in enumerate(files))
        return
    size = max(1, min(_CHUNK, len(files) // (4 * workers)))
    chunks = deque(range(start, min(start + size, len(files))) for start in range(0, len(files), size))
    if executor is not None:
        futures = [(chunk, executor.submit(_run_chunk, [files[index] for index in chunk], mode)) for chunk in chunks]
        for chunk, future in futures:
            yield from zip(chunk, future.result(), strict=True)
        return
    while chunks:
        lost = yield from _run_in_processes(files, chunks, mode, workers)
        yield from _run_alone(files, lost, mode)


def _run_in_processes(
    files: Sequence[File], chunks: deque[range], mode: Mode, workers: int
) -> Generator[tuple[int, Result], None, list[int]]:
    """Work ``chunks`` off until they are done, or a process dies: then the files whose results went with it."""
    pending: dict[Future[list[Result]], range] = {}
    lost: list[int] = []
    pool = _pool(workers, mode)
    try:
        while (chunks or pending) and not lost:
            # Only a few ahead, so that a death costs little.
            while chunks and len(pending) < 2 * workers:
                chunk = chunks.popleft()
                try:
                    pending[pool.submit(_run_chunk, [files[index] for index in chunk], mode)] = chunk
                except BrokenProcessPool:
                    lost += chunk
                    break
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                chunk = pending.pop(future)
                try:
                    results = future.result()
                except BrokenProcessPool:
                    lost += chunk
                else:
                    yield from zip(chunk, results, strict=True)
        for future, chunk in pending.items():
            if future.exception() is None:
                yield from zip(chunk, future.result(), strict=True)
            else:
                lost += chunk
    finally:
        pool.shutdown(cancel_futures=True)
    return sorted(lost)


def _run_alone(files: Sequence[File], indices: Sequence[int], mode: Mode) -> Iterator[tuple[int, Result]]:
    """One file after the other in a process that is replaced when it dies, so that the culprit is known."""
    remaining = deque(indices)
    while remaining:
        with _pool(1, mode) as pool:
            while remaining:
                index = remaining.popleft()
                try:
                    yield index, pool.submit(run_file, files[index], mode).result()
                except BrokenProcessPool:
                    path = files[index].path
                    died = f"{path}: the process that checked this file died; it was left out"
                    yield index, Result(path, errors=(died,))
                    break


def _pool(workers: int, mode: Mode) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_prepare, initargs=(mode,))


def _prepare(mode: Mode) -> None:
    """What a new process does first."""
    gc.disable()  # as `run` does
    # The parent reports an interruption; a child just ends, but not while it may be writing a file.
    signal.signal(signal.SIGINT, _interrupt if mode is Mode.FIX else signal.SIG_DFL)


def _interrupt(signum: int, frame: object) -> None:
    global _interrupted
    _interrupted = True


def _workers(files: Sequence[File]) -> int:
    """How many processes the files are worth."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(files) < 64 and sum(map(_size, files)) < _SMALL:
        return 1
    return min(cores, len(files), 61)  # 61: Windows waits for no more


def _size(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:
        return 0
