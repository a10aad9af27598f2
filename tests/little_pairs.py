"""Pairs of little programs for the tests of the validation suite, and results as if they had been measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement, PairResult, Results

PROGRAM = """\
import os, signal, sys, time
import torch
{head}
TOLERANCE = 0.01
def prepare(device, size=1.0):
    {prepare}
    return size
def work(state):
    {work}
    return {result}
"""

MakePair = Callable[..., Pair]


@pytest.fixture
def make_pair(tmp_path: Path) -> MakePair:
    """Makes a pair of little programs; what is given applies to the after side."""

    def make(**parts: str) -> Pair:
        plain = {"head": "", "prepare": "pass", "work": "pass", "result": "[state, 2 * state]"}
        (tmp_path / "before.py").write_text(PROGRAM.format(**plain))
        (tmp_path / "after.py").write_text(PROGRAM.format(**{**plain, **parts}))
        return Pair("little", "rule", tmp_path, sizes={"cpu": {"one": 1.0}})

    return make


def result(pair: Pair, **changes: object) -> PairResult:
    """A result of a pair as it is, but for some fields."""
    runs = (([2.0] * 8, [1.0] * 8),)
    one = Measurement("one", 1.0, "confirmed", "", 2.0, 1.9, 2.1, 0.0, 0.01, {"time": 2.0}, {"time": 1.0}, runs)
    plain = PairResult(
        pair.name, pair.kind, pair.metric, pair.unit, pair.digest, "code", "2.11.0", "2026-01-31", (one,)
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def a_device(*results: PairResult, name: str = "NVIDIA H200", kind: str = "cuda") -> Results:
    """What was measured on one device."""
    facts = {"type": kind, "torch": "2.11.0", "cpu": "a CPU", "cores": "16", "python": "3.12", "system": "Linux"}
    facts |= {"cuda": "13.0", "driver": "580"} if kind == "cuda" else {}
    return Results(name, facts, {one.name: one for one in results})
