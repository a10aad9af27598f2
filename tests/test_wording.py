"""Messages, pages, docstrings and comments have the terms of linters and of the PyTorch documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(
    path.relative_to(ROOT).as_posix() for folder in ("rules", "torchlint") for path in (ROOT / folder).rglob("*.py")
)

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))

#: Words for which there is a plain or a standard term: fix, is, works, reported, manually, iterates over, discarded ...
UNUSUAL = re.compile(
    r"\b(mends?|mended|stands?|serves|told|dear|by hand|(gone|goes|going) through|thrown away|for nothing|whoever)\b"
    r"|\b(beside|left alone|judged|holds?|held|holding|other rounding)\b"
    r"|\b((each|every) round|(all|many|of|several) rounds)\b"
    r"|(?<![Tt]here\s)\b(is|are)\s+no\s+(?!longer\b|more\b|other\b)(?=[a-z`])|\bto be no\b"
)


def texts_of(code: str) -> list[tuple[int, str]]:
    """The strings that contain words, docstrings included, and the comments of a file, each with its row."""
    strings = [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and type(node.value) is str and " " in node.value
    ]
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return strings + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("file", FILES)
def test_texts_use_standard_terms(file: str) -> None:
    code = (ROOT / file).read_text(encoding="utf-8")
    assert [(row, match[0]) for row, text in texts_of(code) for match in UNUSUAL.finditer(text)] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_standard_terms(page: str) -> None:
    assert [match[0] for match in UNUSUAL.finditer((ROOT / page).read_text(encoding="utf-8"))] == []
