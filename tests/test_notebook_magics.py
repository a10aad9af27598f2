"""What is no Python in a notebook: magics are masked in place, broken cells leave the others alone."""

# mypy: allow-untyped-calls

from __future__ import annotations

import pytest
from conftest import MakeSettings
from hypothesis import given
from hypothesis import strategies as st
from notebook_files import cells, document, fixed, read, texts_in

from torchlint.engine.checker import check
from torchlint.engine.fixer import fix
from torchlint.source.magics import mask


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%matplotlib inline", "__________________"),
        ("!pip install x\nimport x", "______________\nimport x"),
        ("if x:\n    !ls -l  \n", "if x:\n    ________\n"),
        ("!ls \\\n  -l\nx", "_____\n    \nx"),
        ("!ls \\\r\n  -l\r\nx", "_____\r\n    \r\nx"),
        ("files = !ls", "files = ___"),
        ("a, b = %magic \\\n c", "a, b = ________\n  "),
        ("?x", "__"),
        ("x?", "__"),
        ("x.y??  # what", "_____  # what"),
        ("?", "_"),
        ("%time x = f(y)", "____; x = f(y)"),
        ("%timeit f(x)  # often", "______; f(x)  # often"),
        ("%timeit -n 3 f(x)", "_________________"),
        ("%time for x in y: f(x)", "______________________"),
        ("%time !ls", "_________"),
        ("%time", "_____"),
        ("%%time\nx = 1", "______\nx = 1"),
        ("\n  \n%%capture out\n\n%%time\nx = 1", "\n  \n_____________\n\n______\nx = 1"),
        ("%%bash\nls 'x\n", "      \n     \n"),
        ("x = 1\n%%bash\n", "x = 1\n______\n"),
        ("pip install x", "_____________"),
        ("ls -l x.txt", "___________"),
        ("rm -r --force x", "_______________"),
        (",f a b\n;f a\n/f a", "______\n____\n____"),
    ],
)
def test_magics_are_masked_in_place(text: str, code: str) -> None:
    assert mask(text).code == code


@pytest.mark.parametrize(
    "text",
    [
        "x = (\n    a\n    % b\n)",
        "x = a \\\n    % b",
        'x = """\n!ls\n%time\n?"""',
        "x = [\n  '?',\n]  # what?",
        "x = 'is it?'",
        "x = f(a)[b % c] != {1: '!'}",
        "x %= 3\ny == 3 % 2\nz /= 3",
        "f(a=%b)",
        "ls = 3\npip = ls\ncat in dogs\nls (3)\nls -l\nls -l in cat",
        "assert x, 'a = !ls'",
        "# x = !ls\n# what?",
        "@decorator\ndef f(): ...",
    ],
)
def test_python_is_no_magic(text: str) -> None:
    assert mask(text).code == text
    assert mask(text).magics == ()


@given(st.text(alphabet=st.sampled_from("ab \n\r%!?,;/\\=('\"#[]-"), max_size=40))
def test_masking_keeps_every_character_in_its_place(text: str) -> None:
    code = mask(text).code
    assert len(code) == len(text)
    assert [i for i, character in enumerate(code) if character in "\r\n"] == [
        i for i, character in enumerate(text) if character in "\r\n"
    ]


def test_a_broken_cell_is_reported_and_the_others_are_checked(demo: MakeSettings) -> None:
    source = cells("a = LOUD", "b = 1\nc = = LOUD", "'''", "d = LOUD")
    found = [(one.code, source.position(one.start)) for one in check(source, demo(select=["ZZ", "TL"]))]
    assert found == [("ZZ101", (2, 1, 5)), ("TL002", (3, 2, 5)), ("TL002", (4, 1, 1)), ("ZZ101", (5, 1, 5))]
    assert check(cells("a = ("), demo(select=["ZZ", "TL"])) == []  # no rule could find anything
    (found_in_named,) = check(cells("a = ("), demo(select=["ZZ", "TL"]), syntax=True)
    assert found_in_named.message.startswith("this cell cannot be checked: ")


def test_a_cell_may_await_and_import_from_the_future(demo: MakeSettings) -> None:
    content = document("import os\nx = await LOUD", "from __future__ import annotations\ny = LOUD")
    assert texts_in(fixed(content, demo())) == [
        "import os\nx = await loud",
        "from __future__ import annotations\ny = loud",
    ]


def test_a_fix_may_not_break_a_cell_that_awaits(demo: MakeSettings) -> None:
    result = fix(read(document("x = await BREAK")), demo())
    assert result.source.text == "x = await BREAK"
    assert result.errors == (
        "n.ipynb: the fix of ZZ104 on line 1 of cell 2 was not applied: its result is not valid Python",
    )
