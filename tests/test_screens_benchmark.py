"""Rules miss nothing for their screens; `benchmarks/screens.py` asks it of real programs."""

from __future__ import annotations

import ast
from pathlib import Path

from whole_program import DATA, ENGINE, MAIN, write

from benchmarks.eager import differences
from benchmarks.screens import unscreened
from torchlint.rule.registry import load_rules
from torchlint.rule.sketch import Sketch
from torchlint.rule.words import contains

NEW_TENSOR = "def build(size):\n    return torch.zeros(size)\n"


def test_a_program_has_the_same_findings_without_the_screens(tmp_path: Path) -> None:
    write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))
    count, lines = differences(tmp_path, unscreened)
    assert lines == []
    assert count > 0


def test_without_the_screens_every_rule_runs_whose_words_a_file_contains() -> None:
    sketch = Sketch(NEW_TENSOR, ast.parse(NEW_TENSOR), alone=True)

    def excluded() -> int:
        return sum(not rule.may_find(sketch) for rule in load_rules())

    def unconcerned() -> int:
        concerned = (rule.may_concern(NEW_TENSOR) for rule in load_rules())
        return sum(contains(NEW_TENSOR, rule.words) != one for rule, one in zip(load_rules(), concerned, strict=True))

    before = excluded(), unconcerned()
    assert min(before) > 0
    with unscreened():
        assert (excluded(), unconcerned()) == (0, 0)
    assert (excluded(), unconcerned()) == before
