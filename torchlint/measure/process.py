"""A worker process as its parent sees it: questions with a time limit, and an end that nothing outlives."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

#: The folder that contains the package, from which the worker is imported.
ROOT = Path(__file__).resolve().parents[2]

EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")


class Failure(Exception):  # noqa: N818 - what befell a program, not a mistake of ours
    """A program crashed, ran out of memory or did not answer; the text is for a reader, in one line."""


class Process:
    """One side of a pair in a process of its own, with everything that it starts. It ends when this process ends."""

    def __init__(self, folder: Path, side: str, scratch: Path, environment: Mapping[str, str] | None = None) -> None:
        self.side = side  #: the name of the module that it runs
        self._errors = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - open as long as the process
        # Compile caches of its own: the second side must not find what the first has compiled.
        own = {f"{tool}_CACHE_DIR": tempfile.mkdtemp(dir=scratch) for tool in ("TORCHINDUCTOR", "TRITON")}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torchlint.measure.worker", str(folder), side, str(os.getpid())],
            cwd=ROOT,
            env={**os.environ, **own, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            start_new_session=True,
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def send(self, **request: Any) -> None:
        """Put a question, to be answered by `receive`. Raises Failure if the process is gone."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Failure(self._why_it_ended()) from None

    def receive(self, limit: float) -> dict[str, Any]:
        """The next answer. Raises Failure if none comes within `limit` seconds, or the process ends."""
        assert self._process.stdout
        deadline = monotonic() + limit
        # In short waits: a loader's worker may keep the pipe open when the process itself is dead.
        while not select.select([self._process.stdout], [], [], 0.2)[0]:
            if self._process.poll() is not None:
                raise Failure(self._why_it_ended())
            if monotonic() > deadline:
                raise Failure(f"{self.side}: no answer within {limit:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failure(self._why_it_ended())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, limit: float, **request: Any) -> dict[str, Any]:
        """Put a question and wait for its answer."""
        self.send(**request)
        return self.receive(limit)

    def stop(self) -> None:
        """End the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):  # what was still to be written to the dead
                if stream:
                    stream.close()

    def _why_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        # Loader workers may still complain after the exception.
        last = next((line for line in reversed(lines) if EXCEPTION.match(line)), lines[-1] if lines else "")
        code = self._process.returncode
        if "out of memory" in last.lower() or "can't allocate memory" in last.lower() or "MemoryError" in last:
            return f"{self.side}: out of memory"
        if code is not None and code < 0:
            return f"{self.side}: killed by signal {-code}" + (" (out of memory?)" if code == -signal.SIGKILL else "")
        return f"{self.side}: {last[:200] or f'ended with status {code}'}"
