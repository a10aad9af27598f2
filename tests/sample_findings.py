"""Findings on a file with awkward characters, for the tests of the formats, and what a format writes of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from torchlint import output
from torchlint.engine.results import Result
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Severity
from torchlint.source.notebook import Notebook
from torchlint.source.source import Source

# Nothing that a rule or a path might say may break a report, or act upon a terminal.
HOSTILE = 'it\'s "100%" <b>&amp; ]]> ::error::x\x00\x1b[31m\r\nnext\ud800\ufffe\u202e日本🔥'
FILE_NAME = "a dir/100%é ü:,#?日.py"
# Characters that count differently in code points, UTF-16 and UTF-8 stand before each finding; lines end in three ways.
TEXT = 'a = 1\r\nb = "🔥é"; c = call(\n    d,\r    e,\n)\n\nf = "日"; g = call(h)\n'
LONG = "call(\n    d,\r    e,\n)"
SHORT = "call(h)"


def edit_at(text: str, piece: str, content: str) -> Edit:
    """The edit that replaces a piece of the text."""
    start = text.index(piece)
    return Edit(start, start + len(piece), content)


def finding(piece: str, code: str = "AB101", message: str = "it is so", **details: Any) -> Diagnostic:
    """A finding on a piece of the text."""
    start = TEXT.index(piece)
    return Diagnostic(code, "some-name", message, start, start + len(piece), **details)


EDITS = (edit_at(TEXT, "g = ", "g  =  "), edit_at(TEXT, "a = 1\r\n", ""), edit_at(TEXT, "(h)", "('🔥', h)\n"))
FIXED = 'b = "🔥é"; c = call(\n    d,\r    e,\n)\n\nf = "日"; g  =  call(\'🔥\', h)\n\n'
UNSAFE = Fix("write <it>", EDITS, Applicability.UNSAFE, "it may differ")
FINDINGS = (
    finding(LONG, message=HOSTILE, notes=(Note("because\nof"),)),
    finding(SHORT, fix=UNSAFE),
    finding(SHORT, code="AB102", severity=Severity.INFO),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which holds the file that the findings are about."""
    path = tmp_path / FILE_NAME
    path.parent.mkdir()
    path.write_bytes(TEXT.encode())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    return tmp_path


def results(*found: Diagnostic, text: str = TEXT, path: str = FILE_NAME) -> list[Result]:
    """The result of a run with these findings, and a clean file beside."""
    return [Result(path, found, Source.from_text(text, path)), Result("clean.py")]


def notebook() -> list[Result]:
    """The result of a run over a notebook: a finding in the second row of its fourth cell."""
    source = Notebook.from_cells("n.ipynb", [(2, "x = 1\n"), (4, "a\nb = call(1)\n")])
    start = source.text.index("call")
    fix = Fix("do", (Edit(start, start + 4, "x"),), Applicability.SAFE)
    return [Result("n.ipynb", (Diagnostic("AB101", "some-name", "it is so", start, start + 7, fix=fix),), source)]


def report(name: str, found: list[Result]) -> str:
    """What a format writes, which any stream must be able to take."""
    out = io.StringIO()
    output.write(name, found, out, unsafe=False)
    text = out.getvalue()
    assert text == "" or text.endswith("\n")
    return text
