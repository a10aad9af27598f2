"""One command, measured by the CPU time of all its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Measured:
    """The runs of one command."""

    seconds: list[float] = field(default_factory=list)  #: of CPU, user and system, of all processes
    elapsed: list[float] = field(default_factory=list)  #: seconds
    megabytes: list[float] = field(default_factory=list)  #: of the largest process
    printed: set[bytes] = field(default_factory=set)
    errors: bytes = b""  #: what the last run wrote to standard error
    status: int = 0  #: of the last run

    def as_data(self) -> dict[str, object]:
        """The figures, for JSON."""
        return {
            "cpu_seconds": [round(value, 3) for value in self.seconds],
            "elapsed_seconds": [round(value, 2) for value in self.elapsed],
            "megabytes": round(max(self.megabytes)),
        }


def measure(command: Sequence[str], folder: Path, given: bytes | None, into: Measured) -> None:
    """Run a command once in a folder, with what it reads from standard input."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        source.write(given or b"")
        source.seek(0)
        start = os.times()
        process = subprocess.Popen(command, cwd=folder, stdin=source, stdout=output, stderr=errors, env=_environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = into.status = os.waitstatus_to_exitcode(status)
        output.seek(0)
        into.printed.add(output.read())
        errors.seek(0)
        into.errors = errors.read()
    into.elapsed.append(os.times().elapsed - start.elapsed)
    into.seconds.append(usage.ru_utime + usage.ru_stime)
    into.megabytes.append(usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))


def _environment() -> dict[str, str]:
    """The environment, in which Python keeps the bytecode of modules, as users have it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
