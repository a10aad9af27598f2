"""Runs torchlint, or what calls it, in processes that are forked from one which has imported it."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from forks import Forks

TESTS = Path(__file__).resolve().parent
#: The modules that a check may import: with torch as well, each fork would take several times as long.
IMPORTED = [
    ".".join([package, *path.relative_to(folder).with_suffix("").parts])
    for package, folder in (("torchlint", TESTS.parent / "torchlint"), ("torchlint_rules", TESTS.parent / "rules"))
    for path in sorted(folder.rglob("*.py"))
    if path.stem not in ("__init__", "__main__", "flake8_plugin")
    and path.parent.name != "completions"
    and "\nimport torch\n" not in path.read_text(encoding="utf-8")
]
PATIENCE_S = 240.0


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that runs torchlint, and in which the rule packs of the tests can be imported."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **more}


@cache
def forks() -> Forks:
    """The server of this test process."""
    server = Forks(IMPORTED, environment())
    atexit.register(server.stop)
    return server


def can_fork(variables: Mapping[str, str]) -> bool:
    """Whether a process with these variables is the same when it is forked: those that Python reads at its start."""
    return hasattr(os, "fork") and forks().can_run(variables)


def run_module(
    module: str, folder: Path, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """``python -m MODULE ARGUMENTS`` in a folder; a variable that Python reads at its start makes it start anew."""
    variables = environment(**(env or {}))
    if can_fork(variables):
        return forks().run(module, *arguments, cwd=folder, env=variables, stdin=stdin, timeout=PATIENCE_S)
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=variables,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
