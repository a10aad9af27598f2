"""The work on many files: one after the other or in processes; a crash costs one file."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe, Process, parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from torchlint.engine.results import Request, Result
from torchlint.engine.work import prepare, run_chunk, run_file
from torchlint.settings.files import File

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from multiprocessing.connection import Connection

#: Below this much text processes cost more than they bring.
_SMALL = 64 * 1024
#: Files that go to a process at once: enough to make the way there cheap, few enough to share the work evenly.
_CHUNK = 32


def work_on(files: Sequence[File], request: Request, executor: Executor | None) -> Iterator[tuple[int, Result]]:
    """The results of ``files`` by their indices, as they come."""
    workers = _workers(files)
    if executor is not None:
        request = replace(request, run=time.time_ns())  # a process of the executor may have served an earlier run
        chunks = [chunk for chunk, _ in sorted(_chunks(files, workers), key=lambda item: -item[1])]  # most text first
        futures = [(chunk, executor.submit(run_chunk, [files[index] for index in chunk], request)) for chunk in chunks]
        for chunk, future in futures:
            yield from zip(chunk, future.result(), strict=True)
    elif workers < 2:
        yield from ((index, run_file(file, request)) for index, file in enumerate(files))
    else:
        shares = _shares(files, workers)
        while any(shares):
            lost = yield from _run_in_processes(files, shares, request)
            yield from _run_alone(files, lost, request)


def _shares(files: Sequence[File], workers: int) -> list[deque[range]]:
    """What each process begins with: neighbours with about the same amount of text, in chunks that go there at once.

    Neighbours often need the same of the project, which then only one process finds out.
    """
    chunks = _chunks(files, workers)
    total = sum(text for _, text in chunks) or 1
    shares: list[deque[range]] = [deque() for _ in range(workers)]
    done = 0
    for chunk, text in chunks:
        shares[min(done * workers // total, workers - 1)].append(chunk)
        done += text
    return shares


def _chunks(files: Sequence[File], workers: int) -> list[tuple[range, int]]:
    """Neighbouring files that go to a process at once, in order, each chunk with the bytes of its text."""
    size = max(1, min(_CHUNK, len(files) // (4 * workers)))
    chunks = [range(start, min(start + size, len(files))) for start in range(0, len(files), size)]
    return [(chunk, sum(_size(files[index]) for index in chunk)) for chunk in chunks]


def _next_chunk(shares: Sequence[deque[range]], own: int) -> range | None:
    """The next chunk of a process: of its own share; when that is done, the last one of the process with most left."""
    if shares[own]:
        return shares[own].popleft()
    most = max(shares, key=len)
    return most.pop() if most else None


def _run_in_processes(
    files: Sequence[File], shares: Sequence[deque[range]], request: Request
) -> Generator[tuple[int, Result], None, list[int]]:
    """Work ``shares`` off until they are done, or a process dies: then the files whose results went with it."""
    lost: list[int] = []
    busy: dict[Connection, tuple[int, range]] = {}
    workers = [_Worker() for _ in shares]
    try:
        idle = list(range(len(workers)))
        while True:
            for own in idle:
                chunk = _next_chunk(shares, own) if not lost else None
                if chunk is not None:
                    workers[own].begin([files[index] for index in chunk], request)
                    busy[workers[own].connection] = own, chunk
            if not busy:
                break
            idle = []
            ready = wait(list(busy))
            for own, chunk in [busy.pop(connection) for connection in list(busy) if connection in ready]:
                results = workers[own].results()
                if results is None:
                    lost += chunk
                else:
                    yield from zip(chunk, results, strict=True)
                    idle.append(own)
    finally:
        for worker in workers:
            worker.end()
    return sorted(lost)


def _run_alone(files: Sequence[File], indices: Sequence[int], request: Request) -> Iterator[tuple[int, Result]]:
    """One file after the other in a process that is replaced when it dies, so that the culprit is known."""
    worker: _Worker | None = None
    try:
        for index in indices:
            worker = worker or _Worker()
            worker.begin([files[index]], request)
            results = worker.results()
            if results is None:
                path = files[index].path
                died = f"{path}: the process that checked this file died; the file was skipped"
                results = [Result(path, errors=(died,))]
                worker.end()
                worker = None
            yield index, results[0]
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """A process that checks chunks of files, one after the other."""

    def __init__(self) -> None:
        self.connection, other = Pipe()
        self._process = Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        self._is_busy = False

    def begin(self, files: Sequence[File], request: Request) -> None:
        """Have it check some files; what comes of it, `results` tells."""
        self._is_busy = True
        with suppress(OSError):  # it has died, as `results` will tell
            self.connection.send((files, request))

    def results(self) -> list[Result] | None:
        """The results of the files that it was given, in order, when they are there; None if it has died."""
        try:
            found: list[Result] = self.connection.recv()
        except (EOFError, OSError):
            return None
        self._is_busy = False
        return found

    def end(self) -> None:
        """End it, also while it works on something: a file that it is replacing is replaced first."""
        if self._is_busy:
            self._process.terminate()
        else:
            with suppress(OSError):  # it has died
                self.connection.send(None)
        self._process.join()
        self.connection.close()


def _serve(connection: Connection) -> None:
    """What a process does: check the files that come, until None comes or the process that sends them is gone."""
    prepare()
    parent = parent_process()
    assert parent is not None
    while connection in wait([connection, parent.sentinel]):
        given: tuple[Sequence[File], Request] | None = connection.recv()
        if given is None:
            break
        connection.send(run_chunk(*given))


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
