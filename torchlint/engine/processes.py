"""The work on many files: one after the other or in processes; a crash costs one file."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.process import BaseProcess

from torchlint.engine.results import Request, Result
from torchlint.engine.work import prepare, run_chunk, run_file
from torchlint.settings.files import File

#: Below this much text a pool of processes costs more than it brings.
_SMALL = 64 * 1024
#: Files that go to a process at once: enough to make the way there cheap, few enough to share the work evenly.
_CHUNK = 32


def work_on(files: Sequence[File], request: Request, executor: Executor | None) -> Iterator[tuple[int, Result]]:
    """The results of ``files`` by their indices, as they come."""
    workers = _workers(files)
    if executor is None and workers < 2:
        yield from ((index, run_file(file, request)) for index, file in enumerate(files))
        return
    chunks = deque(_chunks(files, workers))
    if executor is not None:
        request = replace(request, run=time.time_ns())  # a process of the executor may have served an earlier run
        futures = [(chunk, executor.submit(run_chunk, [files[index] for index in chunk], request)) for chunk in chunks]
        for chunk, future in futures:
            yield from zip(chunk, future.result(), strict=True)
        return
    while chunks:
        lost = yield from _run_in_processes(files, chunks, request, workers)
        yield from _run_alone(files, lost, request)


def _chunks(files: Sequence[File], workers: int) -> list[range]:
    """Files that go to a process at once, neighbours together: what one needs of the project the next one may need too.

    Those with the most text come first, so that no process is left with much work at the end.
    """
    size = max(1, min(_CHUNK, len(files) // (4 * workers)))
    chunks = [range(start, min(start + size, len(files))) for start in range(0, len(files), size)]
    return sorted(chunks, key=lambda chunk: -sum(_size(files[index]) for index in chunk))


def _run_in_processes(
    files: Sequence[File], chunks: deque[range], request: Request, workers: int
) -> Generator[tuple[int, Result], None, list[int]]:
    """Work ``chunks`` off until they are done, or a process dies: then the files whose results went with it."""
    pending: dict[Future[list[Result]], range] = {}
    lost: list[int] = []
    pool = _pool(workers)
    try:
        while (chunks or pending) and not lost:
            # Only a few ahead, so that a death costs little.
            while chunks and len(pending) < 2 * workers:
                chunk = chunks.popleft()
                try:
                    pending[pool.submit(run_chunk, [files[index] for index in chunk], request)] = chunk
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
    except KeyboardInterrupt:  # it may have reached this process alone
        _terminate(pool)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return sorted(lost)


def _run_alone(files: Sequence[File], indices: Sequence[int], request: Request) -> Iterator[tuple[int, Result]]:
    """One file after the other in a process that is replaced when it dies, so that the culprit is known."""
    remaining = deque(indices)
    while remaining:
        with _pool(1) as pool:
            while remaining:
                index = remaining.popleft()
                try:
                    yield index, pool.submit(run_file, files[index], request).result()
                except BrokenProcessPool:
                    path = files[index].path
                    died = f"{path}: the process that checked this file died; the file was skipped"
                    yield index, Result(path, errors=(died,))
                    break


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=prepare)


def _terminate(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool, whatever they do; a file that one is replacing is replaced first."""
    processes: dict[int, BaseProcess] = dict(getattr(pool, "_processes", None) or {})  # not public before Python 3.14
    for process in processes.values():
        process.terminate()


def _workers(files: Sequence[File]) -> int:
    """How many processes are started for the files."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(files) < 64 and sum(map(_size, files)) < _SMALL:
        return 1
    return min(cores, len(files), 61)  # 61: Windows waits for no more


def _size(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:
        return 0
