"""What rules say in messages, pages and docstrings: the terms of linters and of the PyTorch documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULES = sorted((ROOT / "rules").glob("*/*.py"))

#: Words for which there is a plain or a standard term: fix, is, works, reported, manually, iterates over, discarded ...
UNUSUAL = re.compile(
    r"\b(mends?|mended|stands?|serves|told|dear|by hand|(gone|goes|going) through|thrown away|for nothing|whoever)\b"
    r"|\b(beside|left alone|judged|holds|each round|every round|other rounding)\b"
)


def texts_of(path: Path) -> list[tuple[int, str]]:
    """The strings of a file that contain words, docstrings included, each with its row."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    strings = [
        (node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str
    ]
    return [(row, text) for row, text in strings if " " in text]


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_texts_of_a_rule_use_standard_terms(path: Path) -> None:
    found = [(row, match[0]) for row, text in texts_of(path) for match in UNUSUAL.finditer(text)]
    assert found == []
