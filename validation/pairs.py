"""What is measured: the pairs of ``fixtures/`` and the whole programs of ``validation/programs/``."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("before", "after")

#: The constants of a program that tell the suite what to do with it.
CONSTANTS = ("SIZES", "METRIC", "UNIT")

#: What a pair may be judged by. All but the first two are counts in one run, where less is better.
Metric = Literal["time", "first run", "host synchronizations", "deprecation warnings", "graphs", "peak memory"]


@dataclass(frozen=True)
class Pair:
    """A program as people write it, and the same program after the fix."""

    name: str  #: the rule's or the program's name
    kind: Literal["rule", "program"]
    folder: Path
    metric: Metric = "time"
    unit: str = ""  #: what a whole program's `items` counts
    #: device type -> what the size means to a reader -> the size; the first is the one that the verdict is of
    sizes: dict[str, dict[str, float]] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """A hash of both programs; a result with another one is stale. Line endings do not count."""
        content = hashlib.sha256()
        for side in SIDES:
            text = (self.folder / f"{side}.py").read_text(encoding="utf-8")
            content.update(text.encode("utf-8") + b"\0")
        return content.hexdigest()[:16]


def find_pairs(root: Path = ROOT) -> list[Pair]:
    """All pairs below a checkout's root, rules first, each group by name.

    Raises ValueError, naming the file, for a program whose constants cannot be read.
    """
    rules = [_read(path.parent, "rule") for path in (root / "fixtures").glob("*/before.py") if _is_rule(path.parent)]
    programs = [_read(path.parent, "program") for path in (root / "validation" / "programs").glob("*/before.py")]
    return sorted(rules, key=lambda pair: pair.name) + sorted(programs, key=lambda pair: pair.name)


def _is_rule(folder: Path) -> bool:
    return (folder / "cases.py").exists()


def _read(folder: Path, kind: Literal["rule", "program"]) -> Pair:
    """A pair with the constants of its before-program, which is read here and never run."""
    path = folder / "before.py"
    constants: dict[str, Any] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if (name := statement.targets[0].id) in CONSTANTS:
                constants[name] = ast.literal_eval(statement.value)
    metric = constants.get("METRIC", "time")
    if metric not in get_args(Metric):
        raise ValueError(f"{path}: METRIC is {metric!r}; it must be one of {', '.join(get_args(Metric))}")
    sizes = constants.get("SIZES")
    if not isinstance(sizes, dict) or not all(sizes.values()) or not set(sizes) <= {"cuda", "cpu"}:
        raise ValueError(f'{path}: SIZES must say what to measure, as in {{"cuda": {{"512 photos": 1.0}}}}')
    return Pair(folder.name, kind, folder, metric, constants.get("UNIT", ""), sizes)
