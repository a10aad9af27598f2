"""What is measured: pairs of programs, ``before.py`` and ``after.py`` in a folder."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from torchlint.measure.expectation import Expectation, expectations

#: The package with the pairs of the rules; in the repository it is the folder ``fixtures/``.
PACKAGE = "torchlint_pairs"

#: The pairs of the best-known rules.
CARD = (
    "single-process-dataloader",
    "unpinned-dataloader",
    "missing-no-grad",
    "cuda-in-dataset",
    "nested-compile",
    "missing-autocast",
)

#: The constants of a program that configure its measurement.
CONSTANTS = ("SIZES", "METRIC", "UNIT")

#: The metrics of a pair. All but the first two are counts per run, where less is better.
Metric = Literal["time", "first run", "host synchronizations", "deprecation warnings", "graphs", "peak memory"]


@dataclass(frozen=True)
class Pair:
    """A program, and the same program after the fix."""

    name: str  #: the rule's or the program's name
    kind: Literal["rule", "program", "control"]
    folder: Path
    metric: Metric = "time"
    unit: str = ""  #: the unit of a whole program's `items`
    #: device type -> the size in words -> the size; the first is the one of the verdict
    sizes: dict[str, dict[str, float]] = field(default_factory=dict)
    expected: dict[str, Expectation] = field(default_factory=dict)  #: by the label of a CUDA size
    sides: tuple[str, str] = ("before", "after")  #: the modules in the folder that are compared

    @cached_property
    def digest(self) -> str:
        """A hash of both programs; a result with another one is stale.

        Line endings, the module's docstring and the list of sizes do not count: they do not change what a size runs.
        """
        content = hashlib.sha256()
        for side in self.sides:
            content.update(_without_labels((self.folder / f"{side}.py").read_text(encoding="utf-8")).encode() + b"\0")
        return content.hexdigest()[:16]


def _without_labels(text: str) -> str:
    """A program's text without its docstring and its list of sizes."""
    lines = text.splitlines()
    body = ast.parse(text).body
    for statement in reversed(body):
        is_docstring = statement is body[0] and isinstance(statement, ast.Expr)
        names = [ast.unparse(target) for target in getattr(statement, "targets", ())]
        if is_docstring or names == ["SIZES"]:
            del lines[statement.lineno - 1 : statement.end_lineno]
    return "\n".join(lines)


def rule_folder() -> Path:
    """The folder with the pairs of the rules: installed, or ``fixtures/`` of a checkout that is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = map(Path, spec.submodule_search_locations or ()) if spec else ()
    found = next((folder for folder in folders if any(folder.glob("*/before.py"))), None)  # an earlier one may be empty
    return found or Path(__file__).resolve().parents[2] / "fixtures"


def pairs_in(folder: Path, kind: Literal["rule", "program"]) -> list[Pair]:
    """The pairs in the folders of a folder, by name.

    Raises ValueError, naming the file, for a program whose constants or expectations cannot be read.
    """
    return [_read(path.parent, kind) for path in sorted(folder.glob("*/before.py"))]


def choose(pairs: Sequence[Pair], names: Sequence[str] | None) -> list[Pair]:
    """The pairs of these names, all for None. Raises ValueError for an unknown name."""
    by_name = {pair.name: pair for pair in pairs}
    for name in names or ():
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 1)
            raise ValueError(
                f"unknown rule or program {name!r}" + (f"; did you mean {near[0]}?" if near else "; see --list")
            )
    return list(pairs) if names is None else [by_name[name] for name in dict.fromkeys(names)]


def _read(folder: Path, kind: Literal["rule", "program"]) -> Pair:
    """A pair with the constants of its before-program, which is parsed but never run."""
    path = folder / "before.py"
    constants: dict[str, Any] = {}
    module = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if (name := statement.targets[0].id) in CONSTANTS:
                constants[name] = ast.literal_eval(statement.value)
    metric = constants.get("METRIC", "time")
    if metric not in get_args(Metric):
        raise ValueError(f"{path}: METRIC is {metric!r}; it must be one of {', '.join(get_args(Metric))}")
    sizes = constants.get("SIZES")
    if not isinstance(sizes, dict) or not all(sizes.values()) or not set(sizes) <= {"cuda", "cpu"}:
        raise ValueError(f'{path}: SIZES must map device types to sizes, as in {{"cuda": {{"512 photos": 1.0}}}}')
    try:
        expected = expectations(ast.get_docstring(module) or "", list(sizes.get("cuda", {})))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Pair(folder.name, kind, folder, metric, constants.get("UNIT", ""), sizes, expected)
