"""Runs a command as a reader of the documentation would, and returns what it prints."""

from __future__ import annotations

import glob
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The modules behind the commands that samples may show.
MODULES = {"torchlint": "torchlint", "flake8": "flake8"}
#: Variables of a developer's shell that would change what a command prints.
_UNSET = ("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONWARNINGS")


def is_known(command: str) -> bool:
    """Whether a sample with this command can be run."""
    return command.partition(" ")[0] in MODULES


def output_of(command: str, folder: Path, width: int, *, color: bool = False, messages: bool = False) -> str:
    """What ``command`` prints in ``folder``, without trailing white space; with ``messages``, standard error too.

    Raises RuntimeError if the command reports an error: a sample shows findings, not failures.
    """
    program, *words = shlex.split(command)
    arguments = [path for word in words for path in (sorted(glob.glob(word, root_dir=folder)) or [word])]
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment |= {"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8", "PYTHONPATH": path}
    environment["XDG_DATA_HOME"] = os.devnull  # what was measured on this machine is not part of the documentation
    if color:
        environment["FORCE_COLOR"] = "1"
    cache = ["--no-cache"] if program == "torchlint" and folder == ROOT else []
    done = subprocess.run(
        [sys.executable, "-m", MODULES[program], *cache, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode not in (0, 1) or done.stderr.startswith("error"):
        raise RuntimeError(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return (done.stderr + done.stdout if messages else done.stdout).rstrip()
