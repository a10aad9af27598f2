"""Rules miss nothing for their questions to Python's syntax tree; `benchmarks/screens.py` asks it of real programs."""

from __future__ import annotations

import ast
from pathlib import Path

from whole_program import DATA, ENGINE, MAIN, write

from benchmarks.eager import differences
from benchmarks.screens import unscreened
from torchlint.rule.registry import load_rules
from torchlint.rule.sketch import Sketch

NEW_TENSOR = "def build(size):\n    return torch.zeros(size)\n"


def test_a_program_has_the_same_findings_without_the_questions(tmp_path: Path) -> None:
    write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))
    count, lines = differences(tmp_path, unscreened)
    assert lines == []
    assert count > 0


def test_without_the_questions_every_rule_runs() -> None:
    sketch = Sketch(NEW_TENSOR, ast.parse(NEW_TENSOR), alone=True)

    def excluded() -> int:
        return sum(not rule.may_find(sketch) for rule in load_rules())

    before = excluded()
    with unscreened():
        assert excluded() == 0
    assert excluded() == before > 0
