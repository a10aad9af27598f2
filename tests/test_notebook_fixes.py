"""Fixes of notebooks: nothing but the edited lines of a file changes."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from conftest import MakeSettings
from hypothesis import given
from hypothesis import strategies as st
from notebook_files import cells, document, fixed, read

from torchlint.engine.checker import check
from torchlint.engine.fixer import fix
from torchlint.engine.results import Mode, Request
from torchlint.engine.work import run_file
from torchlint.rule import Edit
from torchlint.settings.files import File
from torchlint.source.ipynb import with_cells


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    """The lines of two texts of as many lines that are not the same."""
    pairs = zip(before.splitlines(keepends=True), after.splitlines(keepends=True), strict=True)
    return [(one.strip(), two.strip()) for one, two in pairs if one != two]


def test_only_the_edited_lines_change(demo: MakeSettings, tmp_path: Path) -> None:
    before = document("x = '🙂'\ny = LOUD\nz = 'LOUD \\u00e9 é'", "a = 1", "%%time\nb = LOUD, '\\n'")
    after = fixed(before, demo())
    assert changed_lines(before, after) == [
        ('"y = LOUD\\n",', '"y = loud\\n",'),
        ("\"z = 'LOUD \\\\u00e9 é'\"", "\"z = 'loud \\\\u00e9 é'\""),
        ("\"b = LOUD, '\\\\n'\"", "\"b = loud, '\\\\n'\""),
    ]


def test_the_file_is_written_as_it_was(demo: MakeSettings, tmp_path: Path) -> None:
    for indent, newline, bom in [(1, "\n", ""), (4, "\r\n", "\ufeff"), (None, "\n", "")]:
        content = json.dumps(json.loads(document("x = LOUD\n")), indent=indent) + "\n \n"
        data = (bom + content).replace("\n", newline).encode()
        path = tmp_path / "n.ipynb"
        path.write_bytes(data)
        run_file(File(str(path), demo(), named=True), Request(Mode.FIX))
        assert path.read_bytes() == data.replace(b"x = LOUD", b"x = loud")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"x = LOUD\\ny"', '"x = loud\\ny"'),
        ('["x = LOUD\\ny"]', '["x = loud\\n", "y"]'),
        ('["x = LO", "UD\\n", "# \\u0041\\/"]', '["x = loud\\n", "# \\u0041\\/"]'),
        ('["\\u0041 = ", "1\\n", "", "x = LOUD"]', '["\\u0041 = ", "1\\n", "x = loud"]'),
        ('[\n "a\\u000ab = \\"\\u00e9\\"\\n",\n "x = LOUD"]', '[\n "a\\u000ab = \\"\\u00e9\\"\\n",\n "x = loud"]'),
        ('["x = LOUD\\r\\n","y"]', '["x = loud\\r\\n","y"]'),
        ("[ \"x = '\\ud83d\\ude42', LOUD\" ]", "[ \"x = '\\ud83d\\ude42', loud\" ]"),
        ('["LOUD # \\u2028 \\f\\n", "x"]', '["loud # \\u2028 \\f\\n", "x"]'),
    ],
)
def test_a_source_keeps_its_form(demo: MakeSettings, before: str, after: str) -> None:
    content = '{"cells": [{"cell_type": "code", "source": %s}]}'
    assert fix(read(content % before), demo()).source.to_bytes().decode() == content % after


def test_letters_are_escaped_as_the_file_escapes_them() -> None:
    for content, written in (
        ('{"cells": [{"cell_type": "code", "source": ["x"], "outputs": ["\\u00e9"]}]}', '"\\u00e9"'),
        ('{"cells": [{"cell_type": "code", "source": ["x"], "outputs": ["\\u001b"]}]}', '"é"'),
        ('{"cells": [{"cell_type": "code", "source": ["x"], "outputs": ["ß"]}]}', '"é"'),
    ):
        assert f'"source": [{written}]' in with_cells(content, {1: "é"})


def test_half_a_surrogate_pair_breaks_its_cell_only(demo: MakeSettings) -> None:
    content = (
        '{"cells": [{"cell_type": "code", "source": ["# \\ud800\\n", "LOUD"]}, '
        '{"cell_type": "code", "source": "x = LOUD"}]}'
    )
    source = read(content)
    assert {one.code for one in check(source, demo(select=["ZZ", "TL"]))} == {"TL002", "ZZ101"}
    assert fix(source, demo()).source.to_bytes().decode() == content.replace("x = LOUD", "x = loud")
    edited = source.edited([Edit(0, 0, "y = 1\n")])
    assert edited.to_bytes().decode() == content.replace('"# \\', '"y = 1\\n", "# \\')


JSON_TEXT = st.text(alphabet=st.sampled_from('ab\n\r\t"\\/é🙂\ud800\u2028\0'), max_size=12)


@given(st.lists(st.lists(JSON_TEXT, max_size=3) | JSON_TEXT, max_size=4), st.data())
def test_any_cell_can_become_any_text_and_nothing_else_changes(
    sources: list[list[str] | str], data: st.DataObject
) -> None:
    awkward = {"source": '"]}', "": [[], {}, 1.5, -1e5, None, float("nan")]}
    common: dict[str, object] = {"cell_type": "code", "outputs": [], "execution_count": None}
    code = [{"metadata": awkward, "source": source, **common} for source in sources]
    whole = {"metadata": {"cells": [{}]}, "cells": code, "nbformat": 4, "nbformat_minor": 4}
    halves = "\ud800" in json.dumps(sources, ensure_ascii=False)
    content = json.dumps(
        whole, ensure_ascii=halves or data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1]))
    )
    assert read(content).to_bytes().decode() == content
    if not code:
        return
    index = data.draw(st.integers(1, len(code)))
    text = data.draw(JSON_TEXT)
    written = with_cells(content, {index: text})
    written.encode()
    assert nbformat.reads(written, as_version=4).cells[index - 1].source == text
    again = json.loads(written)
    new, old = again["cells"][index - 1].pop("source"), code[index - 1].pop("source")
    assert type(new) is type(old)
    assert json.dumps(again) == json.dumps(whole)


def test_an_import_lands_in_a_cell_of_code() -> None:
    content = document("%%bash\nls", "%matplotlib inline\nimport torch", "from torch.utils.data import DataLoader")
    assert read(content).cells[1].index == 3
    source = read(content)
    assert source.fitted([Edit(0, 0, "import os\n")]) is None
    row = source.text.index("import torch")
    there = (Edit(row, row, "import os\n"),)
    assert source.fitted(there) == there


@pytest.mark.parametrize(
    ("texts", "edit", "allowed"),
    [
        (("ab", "cd"), Edit(1, 4, ""), False),
        (("ab", "cd"), Edit(1, 2, ""), True),
        (("ab", "cd"), Edit(2, 2, "x"), True),
        (("%a", "cd"), Edit(0, 0, "import os\n"), True),
        (("%a", "cd"), Edit(1, 1, "x"), False),
        (("%a", "cd"), Edit(2, 2, "x"), False),
        (("%a", "cd"), Edit(2, 2, "\nx"), True),
        (("%%time\na", "cd"), Edit(0, 0, "import os\n"), False),
        (("%%time\na", "cd"), Edit(7, 7, "import os\n"), True),
        (("a = (", "cd"), Edit(0, 0, "import os\n"), False),
        (("%time a", "cd"), Edit(6, 7, "b"), True),
        (("model(x)", "cd"), Edit(0, 0, "with y:\n    "), False),
        (("model(x);", "cd"), Edit(0, 0, "with y:\n    "), True),
        (("print(x)", "cd"), Edit(0, 0, "with y:\n    "), True),
        (("x = model(x)", "cd"), Edit(0, 0, "with y:\n    "), True),
        (("model(x)", "cd"), Edit(8, 8, "\nmodel.compile()"), False),
        (("model(x)", "cd"), Edit(6, 7, "y"), True),
        (("model(x)", "cd"), Edit(0, 0, "import os\n"), True),
    ],
)
def test_which_edits_a_cell_takes(texts: tuple[str, ...], edit: Edit, allowed: bool) -> None:
    assert (cells(*texts).fitted([edit]) is not None) == allowed
