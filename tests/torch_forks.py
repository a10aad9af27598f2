"""Programs that use torch, in processes forked from a server which has imported it (see `validation.child`).

Each process imports this module: it imports nothing else that takes long.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from validation.child import IMPORTED, call
from validation.process import Failure

#: Seconds, less than a test may take: a program that hangs is named, and not the test.
PATIENCE_S = 240.0


def compute(folder: Path, side: str, size: float, result: str, compare_with: str = "") -> dict[str, Any]:
    """What one side of a pair computes, into the file `result`; how far it is from another file."""
    found: dict[str, Any] = call(_compute, str(folder), side, size, result, compare_with, limit=PATIENCE_S)
    return found


def _compute(side: str, size: float, result: str, compare_with: str) -> dict[str, Any]:
    """In the process."""
    from validation.worker import Worker

    one = Worker(importlib.import_module(side))
    one.prepare("cpu", size)
    one.first(result)
    return one.compare(result, compare_with) if compare_with else {}


def printed(folder: Path, name: str) -> str:
    """What a program prints, and how it ends."""
    with tempfile.NamedTemporaryFile() as output:
        try:
            ending = call(_run_program, str(folder), name, output.name, limit=PATIENCE_S)
        except Failure as failure:
            ending = str(failure)
        return "\n".join([Path(output.name).read_text(encoding="utf-8"), ending])


def _run_program(name: str, output: str) -> str:
    """In the process: run ``NAME.py`` in the folder that is first on the import path; how it ends."""
    import torch

    torch.set_num_threads(1)  # several on a busy machine wait for each other
    os.chdir(sys.path[0])
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, 1)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = [f"{name}.py"]
    status: object = 0
    error = ""
    try:
        runpy.run_path(f"{name}.py", run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except Exception as raised:
        status, error = 1, "".join(traceback.format_exception_only(raised)).strip().splitlines()[-1]
    sys.stdout.flush()
    return f"status {status}\n{error}".strip()


class ForkedWorker:
    """Stands in for the `subprocess.Popen` of a ``python -m validation.worker``."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: IO[bytes],
        encoding: str,
        start_new_session: bool,
    ) -> None:
        assert list(command[1:3]) == ["-m", "validation.worker"]
        assert (stdin, stdout, start_new_session) == (subprocess.PIPE, subprocess.PIPE, True)
        self.args = command
        requests, writing = os.pipe()
        reading, answers = os.pipe()
        ends = (Connection(requests), Connection(answers), Connection(os.dup(stderr.fileno())))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(IMPORTED))
        self._process = context.Process(target=_run_worker, args=(ends, command[3:5], cwd, dict(env)))
        self._process.start()
        for end in ends:
            end.close()
        self.stdin = open(writing, "w", encoding=encoding)  # noqa: SIM115
        self.stdout = open(reading, encoding=encoding)  # noqa: SIM115
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, None as long as the process runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit status, None as long as the process runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, as soon as the process has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode


def _run_worker(ends: Sequence[Connection], arguments: Sequence[str], cwd: Path, environment: dict[str, str]) -> None:
    """In the process: what ``python -m validation.worker`` does."""
    from validation import worker

    os.setsid()
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    multiprocessing.set_start_method("fork", force=True)
    sys.stdin, sys.stderr = open(0, encoding="utf-8"), open(2, "w", encoding="utf-8")  # noqa: SIM115
    folder, side = arguments
    worker.main(folder, side, str(os.getppid()))
