"""Every before/after pair in `fixtures/` runs on the CPU, and both sides compute the same."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the pairs need torch")

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
PAIRS = sorted(path.parent for path in FIXTURES.glob("*/before.py"))
SIZE = 0.02
TIME_LIMIT_S = 300

# Imported by its own name, as data-loader workers started without fork import it again.
RUN_SIDE = """
import importlib, json, sys

import torch

directory, side, size, answer = sys.argv[1:]
sys.path.insert(0, directory)
module = importlib.import_module(side)


def numbers(result):
    if isinstance(result, torch.Tensor):
        return result.detach().double().flatten().tolist()
    if isinstance(result, (list, tuple)):
        return [number for part in result for number in numbers(part)]
    return [float(result)]


if __name__ == "__main__":
    result = numbers(module.work(module.prepare("cpu", float(size))))
    with open(answer, "w", encoding="utf-8") as file:
        json.dump({"numbers": result, "tolerance": getattr(module, "TOLERANCE", 0.0)}, file)
"""


def run_side(pair: Path, side: str, answer: Path) -> dict[str, Any]:
    """What one side computes, in its own process, and the tolerance that it states."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_SIDE, str(pair), side, str(SIZE), str(answer)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIME_LIMIT_S,
        check=False,
        # Values are compared here, not speed: without this, `torch.compile` needs a C++ tool chain.
        env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},
    )
    assert done.returncode == 0, f"{pair.name}/{side}.py failed:\n{done.stderr}"
    loaded: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return loaded


def test_there_are_pairs() -> None:
    assert PAIRS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_both_sides_compute_the_same(pair: Path, tmp_path: Path) -> None:
    before = run_side(pair, "before", tmp_path / "before.json")
    after = run_side(pair, "after", tmp_path / "after.json")

    assert before["tolerance"] == after["tolerance"]
    expected, actual = before["numbers"], after["numbers"]
    assert len(expected) == len(actual) > 0
    assert all(map(math.isfinite, expected))
    # Relative to the largest number: a component near zero has no digits of its own.
    allowed = before["tolerance"] * max(map(abs, expected))
    worst = max(abs(left - right) for left, right in zip(expected, actual, strict=True))
    assert worst <= allowed, f"{worst} is more than {allowed}"
