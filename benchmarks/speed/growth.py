"""How CPU time grows with the lines of a folder, with the number of selected rules, and where it goes."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .measuring import Measured, measure
from .uses import TORCHLINT

#: The parts of a folder and of the rules that are measured.
PARTS = (0.125, 0.25, 0.5, 1.0)
_PHASE = re.compile(r"^ *([\d.]+) s +[\d.]+%  (.+)$", re.MULTILINE)
_RULE = re.compile(r"TL\d{3} ")


def lines_of(folder: Path) -> int:
    """The lines of the Python files in a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))


def phases(folder: Path) -> dict[str, float]:
    """CPU seconds of the analysis by phase; those of all rules together."""
    measured = Measured()
    measure([*TORCHLINT, "--no-cache", "--timing", "."], folder, None, measured)
    found: dict[str, float] = {}
    for seconds, name in _PHASE.findall(measured.errors.decode()):
        phase = "rules" if _RULE.match(name) else name
        found[phase] = round(found.get(phase, 0.0) + float(seconds), 2)
    inner = sum(found.values())
    found["start, other processes and the report"] = round(max(0.0, measured.seconds[0] - inner), 2)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def by_lines(folder: Path, work: Path) -> list[dict[str, float]]:
    """A first run over random parts of a folder; each part contains the one before."""
    files = sorted(path for path in folder.rglob("*.py"))
    random.Random(7).shuffle(files)
    found = []
    for part in PARTS:
        copy = work / f"part {part}"
        for path in files[: round(len(files) * part)]:
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (copy / ".git").mkdir(exist_ok=True)
        measured = Measured()
        measure([*TORCHLINT, "--no-cache", "."], copy, None, measured)
        found.append({"lines": lines_of(copy), "cpu_seconds": round(measured.seconds[0], 2)})
        shutil.rmtree(copy)
    return found


def by_rules(folder: Path) -> list[dict[str, float]]:
    """A first run with random parts of the rules that are on by default; each part contains the one before."""
    codes = default_codes()
    random.Random(7).shuffle(codes)
    found = []
    for part in PARTS:
        some = codes[: max(1, round(len(codes) * part))]
        measured = Measured()
        measure([*TORCHLINT, "--no-cache", "--select", ",".join(some), "."], folder, None, measured)
        found.append({"rules": len(some), "cpu_seconds": round(measured.seconds[0], 2)})
    return found


def by_cores(folder: Path) -> list[dict[str, float]]:
    """A first run on one core, two, four ..., as many as there are; where the system can limit them."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    found = []
    count = 1
    while count <= len(cores):
        measured = Measured()
        os.sched_setaffinity(0, cores[:count])
        try:
            measure([*TORCHLINT, "--no-cache", "."], folder, None, measured)
        finally:
            os.sched_setaffinity(0, cores)
        elapsed, seconds = measured.elapsed[0], measured.seconds[0]
        found.append({"cores": count, "elapsed_seconds": round(elapsed, 2), "cpu_seconds": round(seconds, 2)})
        count *= 2
    return found


def default_codes() -> list[str]:
    """The codes of the rules that are on by default."""
    program = (
        "from torchlint.settings.resolver import Resolver\n"
        "print(*sorted(rule.code for rule in Resolver(isolated=True).for_folder('.').rules()))"
    )
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
