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
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from torchlint.measure.process import Failure
from validation.child import IMPORTED, call

#: Seconds, less than a test may take: a program that hangs is named, and not the test.
PATIENCE_S = 240.0


#: Seconds; a program that takes longer is not run again on the same state.
LONG_S = 2.0


def compute(
    folder: Path, side: str, size: float, result: str, compare_with: str = "", *, again: bool = False
) -> dict[str, Any]:
    """What one side of a pair computes in its first run, into the file `result`; how far it is from another.

    With `again`, it runs once more on the same state, as in a measurement.
    """
    found: dict[str, Any] = call(_compute, str(folder), side, size, result, compare_with, again, limit=PATIENCE_S)
    return found


def _compute(side: str, size: float, result: str, compare_with: str, again: bool) -> dict[str, Any]:
    """In the process."""
    from torchlint.measure.worker import Worker

    one = Worker(importlib.import_module(side))
    one.prepare("cpu", size)
    first = one.first(result)
    if again and first["seconds"] < LONG_S:
        one.sample(1)
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


def started(function: Callable[..., object], *arguments: object) -> BaseProcess:
    """A process that calls a function; what it returns is lost."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


class ForkedWorker:
    """Stands in for the `subprocess.Popen` of a ``python -m torchlint.measure.worker``."""

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
        assert list(command[1:3]) == ["-m", "torchlint.measure.worker"]
        assert (stdin, stdout, start_new_session) == (subprocess.PIPE, subprocess.PIPE, True)
        self.args = command
        requests, writing = os.pipe()
        reading, answers = os.pipe()
        ends = (Connection(requests), Connection(answers), Connection(os.dup(stderr.fileno())))
        self._process = started(_run_worker, ends, command[3:5], cwd, dict(env))
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
    """In the process: what ``python -m torchlint.measure.worker`` does."""
    from torchlint.measure import worker

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


def run_without_workers(root: Path, output: Path) -> None:
    """In the process: the command of the validation suite for the pairs of a folder, each measured in no time."""
    from torchlint.measure import campaign
    from torchlint.measure.environment import Machine
    from torchlint.measure.measure import Task
    from torchlint.measure.results import Measurement
    from validation import __main__ as command_line
    from validation import pairs

    class NoSides:
        def __init__(self, task: Task, deadline: float) -> None:
            self.task = task

        def prepare(self) -> list[float]:
            return [0.0, 0.0]

        def stop(self) -> None:
            pass

    def measure(sides: NoSides, *rest: object) -> Measurement:
        time.sleep(0.01)
        runs = (([2.0], [1.0]),)
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, runs=runs)

    machine = Machine("cpu", "a CPU", {"type": "cpu", "torch": "2.13.0"})
    vars(command_line).update(find_pairs=lambda: pairs.find_pairs(root), find_machine=lambda device: machine)
    vars(campaign).update(Sides=NoSides, measure=measure)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.exit(command_line.main(["--device", "cpu", "--output", str(output), "--resume"]))
