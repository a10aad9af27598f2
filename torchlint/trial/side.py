"""A script that runs in a copy, as its parent sees it: blocks of steps in turns, stopped in between."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any

from torchlint.injection.folder import fill, import_path
from torchlint.measure.process import EXCEPTION
from torchlint.trial.copies import Copy

HANG_S = 600.0  #: for one block of steps
_COUNTERS = Path(__file__).parents[1] / "measure" / "counters.py"  # not imported here: it imports torch


class ScriptError(Exception):
    """The script failed, never stepped or took too long; the text is one line for the user."""


class EndError(Exception):
    """The script came to its end."""


@dataclass(frozen=True)
class StepDefinition:
    """What counts as a step, found in a run of the script."""

    kind: str  #: "optimizer", "backward", "batch", "forward", or empty: to be found
    passed: int = 1  #: steps before the first report
    device: str = "cpu"
    files: Sequence[str] = ()  #: of the modules that the script has loaded


@dataclass(frozen=True)
class Block:
    """Some steps in turn."""

    steps: int
    seconds: float
    waited: float  #: seconds in which the script waited for batches
    losses: Sequence[float]  #: one for each step with a backward pass
    peak_memory: int
    synchronizations: int


class Side:
    """One copy of a script in a process of its own, with everything that it starts. It runs when it has the turn."""

    def __init__(self, name: str, copy: Copy, scratch: Path) -> None:
        self.name = name  #: for messages
        self.copy = copy
        self._scratch = Path(tempfile.mkdtemp(dir=scratch))
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: IO[str] | None = None
        self._errors = open(self._scratch / "errors", "w+b")  # noqa: SIM115 - open as long as the process

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self, steps: StepDefinition, deadline: float) -> StepDefinition:
        """Start the script and run it until its first step; what a step is. Raises ScriptError."""
        with socket.socket(socket.AF_UNIX) as listening:
            address = os.path.join(tempfile.mkdtemp(dir=self._scratch), "socket")
            listening.bind(address)
            listening.listen(1)
            self._process = self._started(steps, address)
            while not select.select([listening], [], [], 0.1)[0]:
                if self._process.poll() is not None:
                    return self._without_steps(steps, deadline)
                if monotonic() > deadline:
                    raise ScriptError(f"{self.name} made no step before the budget was used up")
            self._connection, _ = listening.accept()
        self._answers = self._connection.makefile("r", encoding="utf-8")
        first = self._receive(deadline)
        if first["processes"] > 1:
            raise ScriptError("the script trains in several processes; only a single one can be measured")
        return StepDefinition(first["kind"], first["passed"], first["device"], tuple(first["files"]))

    def _started(self, steps: StepDefinition, address: str) -> subprocess.Popen[bytes]:
        folder = self._scratch / "injected"
        fill(folder, Path(__file__).with_name("injected.py"), (_COUNTERS,))
        program = self.copy.program
        told = {"address": address, "kind": steps.kind, "skip": steps.passed, "counts": str(self._scratch / "counts")}
        told |= {"original": program.root, "copy": self.copy.root}
        others = os.environ.get("PYTHONPATH", "").replace(program.root, self.copy.root)
        environment = {**os.environ, "PYTHONPATH": import_path(folder, others)}
        environment.pop("PYTHONSAFEPATH", None)  # `python -m torchlint` sets it for its own processes
        environment |= {"TORCHLINT_TRIAL": json.dumps(told), "PYTHONHASHSEED": "0"}
        # Compile caches of its own: the second side must not find what the first has compiled.
        environment |= {f"{tool}_CACHE_DIR": str(self._scratch / tool.lower()) for tool in ("TORCHINDUCTOR", "TRITON")}
        try:
            return subprocess.Popen(
                self.copy.command,
                cwd=self.copy.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ScriptError(f"{self.copy.command[0]}: {error.strerror}") from error

    def _without_steps(self, steps: StepDefinition, deadline: float) -> StepDefinition:
        """After the script has ended: start it again with the steps that it may have."""
        self._raise_failure()
        try:
            passed = json.loads((self._scratch / "counts").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ScriptError(
                f"{self.name} cannot be observed: the command runs no Python, or ignores or replaces PYTHONPATH"
            ) from None
        if steps.kind:
            raise ScriptError(f"{self.name} ended without a step, a backward pass, a batch or a forward pass")
        kind = next((kind for kind in ("backward", "batch") if passed[kind] > 1), "forward")
        return self.start(StepDefinition(kind), deadline)

    def run(self, steps: int, *, count: bool = False) -> Block:
        """Let the script make some steps. Raises ScriptError, or EndError if it ends before."""
        self._signal(signal.SIGCONT)
        try:
            self._connection.sendall(json.dumps({"steps": steps, "count": count}).encode() + b"\n")
        except OSError:
            raise self._end() from None
        answer = self._receive(monotonic() + HANG_S)
        return Block(
            steps,
            answer["seconds"],
            answer["waited"],
            answer["losses"],
            answer["peak memory"],
            answer["synchronizations"],
        )

    def _receive(self, deadline: float) -> dict[str, Any]:
        assert self._answers is not None
        while not select.select([self._connection], [], [], 0.1)[0]:
            if self._process is not None and self._process.poll() is not None:
                raise self._end()
            if monotonic() > deadline:
                raise ScriptError(f"{self.name} did not end a block of steps in time")
        line = self._answers.readline()
        if not line:
            raise self._end()
        self._signal(signal.SIGSTOP)  # what it has started too: the workers of a loader must not load in advance
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> EndError:
        """The process is at its end. Raises ScriptError if that is a failure."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        self._raise_failure()
        return EndError()

    def _raise_failure(self) -> None:
        status = self._process.returncode if self._process is not None else 0
        if status == 0:
            return
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if EXCEPTION.match(line)), lines[-1] if lines else "")
        raise ScriptError(f"{self.name} failed: {last[:300] or f'exit status {status}'}")

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """End the script and all that it has started."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        if self._answers is not None:
            self._answers.close()
            self._connection.close()
        self._errors.close()
