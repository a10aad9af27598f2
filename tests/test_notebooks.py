"""Notebooks: cells make one module, places are named by cell, and nothing but the edited lines of a file changes."""

# mypy: allow-untyped-calls

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import torchlint
from torchlint.engine.checker import check
from torchlint.engine.fixer import fix
from torchlint.engine.runner import Mode, Result, run_file
from torchlint.output import full
from torchlint.rule import Edit
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.ipynb import with_cells
from torchlint.source.magics import mask
from torchlint.source.notebook import Notebook
from torchlint.source.source import Position, Source, SourceError

MakeSettings = Callable[..., Settings]
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

OUTPUT = new_output("stream", text="LOUD \u2603\n")
PYTHON = {"language_info": {"name": "python"}, "kernelspec": {"name": "python3", "display_name": "é"}}


def document(*texts: str, prose: str = "# LOUD prose") -> str:
    """A notebook file: a cell of prose, then cells of code with output."""
    cells = [new_markdown_cell(prose), *(new_code_cell(text, outputs=[OUTPUT], execution_count=3) for text in texts)]
    notebook = new_notebook(cells=cells, metadata=PYTHON)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def cells(*texts: str) -> Notebook:
    """A notebook with a cell of prose before those of code."""
    return Notebook.from_cells("n.ipynb", enumerate(texts, 2))


def read(content: str) -> Source:
    """The source of a notebook file."""
    return reading.from_content(content, "n.ipynb")


def texts_in(content: str) -> list[str]:
    """The texts of the code cells, as Jupyter reads them."""
    return [cell.source for cell in nbformat.reads(content, as_version=4).cells if cell.cell_type == "code"]


def fixed(content: str, settings: Settings) -> str:
    """What fixing makes of a notebook file; it is a valid one, and a second run changes nothing."""
    result = fix(read(content), settings).source.to_bytes().decode()
    nbformat.validate(nbformat.reads(result, as_version=4))
    assert fix(read(result), settings).source.to_bytes().decode() == result
    return result


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    """The lines of two texts of as many lines that are not the same."""
    pairs = zip(before.splitlines(keepends=True), after.splitlines(keepends=True), strict=True)
    return [(one.strip(), two.strip()) for one, two in pairs if one != two]


# -- one module


def test_a_module_spans_all_cells() -> None:
    content = document(
        "import torch\nfrom torch.utils.data import DataLoader",
        "%matplotlib inline\nloader = DataLoader(Photos(), batch_size=64, pin_memory=True)",
        "for images, _ in loader:\n    model(images.cuda())",
    )
    (found,) = torchlint.check_text(content, "n.ipynb", torchlint.load_settings(None, {"select": ["TL204"]}))
    assert read(content).position(found.start) == Position(cell=4, row=2, column=11)
    (note,) = found.notes
    assert note.place is not None
    assert read(content).position(note.place.start) == Position(cell=3, row=2, column=10)


def test_rows_are_those_of_the_cell_and_code_is_quoted_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(
        document("import torch", "\n@torch.compile\ndef f(x):\n    return x['line 2'].item()"), encoding="utf-8"
    )
    settings = torchlint.load_settings(None, {"select": ["TL504"]})
    out = io.StringIO()
    full.write([run_file(File(str(path), settings, named=True), Mode.CHECK)], out)
    assert "`x['line 2'].item()` reads a value" in out.getvalue()
    assert "= note: `f` is compiled at line 2\n" in out.getvalue()


def test_words_elsewhere_in_the_file_are_no_code(demo: MakeSettings) -> None:
    assert check(read(document("x = 1")), demo()) == []


def test_suppressions_reach_their_statement_or_the_whole_notebook(demo: MakeSettings) -> None:
    assert check(cells("x = LOUD  # noqa: ZZ101", "y = 1"), demo()) == []
    assert len(check(cells("x = LOUD", "y = 1  # noqa: ZZ101"), demo(ignore=["TL001"]))) == 1
    assert check(cells("x = LOUD", "# torchlint: noqa: ZZ101"), demo()) == []
    assert len(check(cells("x = LOUD", "!echo '\n# noqa", "y = LOUD  # noqa: ZZ101"), demo())) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("x = 1  # noqa: ZZ101", "y"), ("x = 1", "y")),
        (("x = 1\n# noqa: ZZ101", "y"), ("x = 1", "y")),
        (("# noqa: ZZ101\nx = 1", "y"), ("x = 1", "y")),
        (("# noqa: ZZ101", "y"), ("", "y")),
        (("y", "x = 1\n# noqa: ZZ101"), ("y", "x = 1")),
    ],
)
def test_an_unused_suppression_is_removed_within_its_cell(
    demo: MakeSettings, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    assert texts_in(fixed(document(*before), demo())) == list(after)


# -- what is no Python


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
    assert result.errors == ("n.ipynb: the fix of ZZ104 on line 1 of cell 2 was left out: its result is not Python",)


# -- places


TEXTS = st.lists(
    st.lists(st.sampled_from(["a", "🙂", "\n", "\r\n", "\ra"]), max_size=8).map("".join), min_size=1, max_size=4
)


@given(TEXTS)
def test_places_are_those_of_the_cell_alone(texts: list[str]) -> None:
    source = cells(*texts)
    for cell, text in zip(source.cells, texts, strict=True):
        alone = Source.from_text(text)
        for offset in range(len(text) + 1):
            position = source.position(cell.start + offset)
            assert position == Position(cell.index, *alone.location(offset))
            assert source.offset_of(position) == cell.start + offset


def test_a_file_that_is_no_notebook_has_no_cells() -> None:
    source = Source.from_text("a\nb", "a.py")
    assert source.position(2) == Position(None, 2, 1)
    assert source.offset_of(Position(None, 2, 1)) == 2
    assert source.cell_at(2) is None


def test_frames_show_rows_of_the_cell_only(demo: MakeSettings) -> None:
    source = cells("above = 1", "🙂 = 1  # not Python", "x = '🙂', LOUD", "below = 1")
    found = [one for one in check(source, demo()) if one.code == "ZZ101"]
    lines = ["".join(text for text, _ in line) for line in full.render(source, found[0], 80)]
    assert lines[0].startswith("n.ipynb:cell 4:1:10: ZZ101")
    assert lines[1:5] == ["  |", "1 | x = '🙂', LOUD", "  |           ^^^^ here", "  |"]


def test_concise_and_json_name_the_cell(tmp_path: Path, project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "n.ipynb").write_text(document("x = 1", "y = (\n    LOUD,\n)"), encoding="utf-8")
    done = torchlint_in(project, "--output-format", "concise")
    assert done.stdout.splitlines()[0].startswith("n.ipynb:cell 3:2:5: ZZ101")
    (item,) = json.loads(torchlint_in(project, "--output-format", "json").stdout)
    assert item["cell"] == 3
    assert item["location"] == {"row": 2, "column": 5}
    assert item["end_location"] == {"row": 2, "column": 9}
    assert item["noqa_row"] == 2
    (edit,) = item["fix"]["edits"]
    assert (edit["cell"], edit["location"], edit["end_location"]) == (3, item["location"], item["end_location"])


def test_a_diff_is_one_for_each_changed_cell(tmp_path: Path, demo: MakeSettings) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(document("x = LOUD", "y = 1", "z = LOUD\nz\n"), encoding="utf-8")
    result = run_file(File(str(path), demo(), named=True), Mode.DIFF)
    assert result.diff.replace(str(path), "n.ipynb") == (
        "--- n.ipynb:cell 2\n+++ n.ipynb:cell 2\n@@ -1 +1 @@\n-x = LOUD\n\\ No newline at end of file\n+x = loud\n"
        "\\ No newline at end of file\n"
        "--- n.ipynb:cell 4\n+++ n.ipynb:cell 4\n@@ -1,2 +1,2 @@\n-z = LOUD\n+z = loud\n z\n"
    )


# -- fixes


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
        run_file(File(str(path), demo(), named=True), Mode.FIX)
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
    row = source.offset_of(Position(3, 2, 1))
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


# -- files that are no notebooks, or not of Python


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON: Expecting value on line 1"),
        ("{\n'cells': []}", "not JSON: .* on line 2"),
        ("[]", "its JSON is no object"),
        ("{}", "no list of `cells`"),
        ('{"cells": {}}', "no list of `cells`"),
        ('{"cells": [1]}', "cell 1 is no object"),
        ('{"cells": [{"cell_type": "code"}]}', "the `source` of cell 1 is no text"),
        ('{"cells": [{"cell_type": "code", "source": ["a", 1]}]}', "the `source` of cell 1 is no text"),
        ('{"cells": ' + "[" * 200_000, "nested too deeply|not JSON"),
        ('{"cells": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply|cell 1 is no object"),
        ('{"cells": [], "x": ' + "1" * 10_000 + "}", "cannot be read|"),
    ],
)
def test_what_is_no_notebook_is_refused_with_a_reason(content: str, reason: str, demo: MakeSettings) -> None:
    try:
        read(content)
    except SourceError as error:
        assert re.search(reason, str(error)) and "\n" not in str(error)
    else:
        assert reason.endswith("|")
    found = torchlint.check_text(content, "n.ipynb", demo(select=["TL"]))
    assert [one.code for one in found] == ([] if reason.endswith("|") and not found else ["TL002"])


def test_a_file_that_is_no_notebook_stays_as_it_is(tmp_path: Path, demo: MakeSettings) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(b'{"cells": "LOUD\xff"}')
    result = run_file(File(str(path), demo(select=["TL"]), named=False), Mode.FIX)
    assert [one.code for one in result.diagnostics] == ["TL002"]
    assert path.read_bytes() == b'{"cells": "LOUD\xff"}'
    assert torchlint.fix_text("{", "n.ipynb", demo(select=["TL"])).source.to_bytes() == b"{"


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}},
        {"language_info": {"name": "julia"}},
    ],
)
def test_other_languages_give_no_findings(metadata: dict[str, dict[str, str]], demo: MakeSettings) -> None:
    notebook = new_notebook(cells=[new_code_cell("LOUD <- (")], metadata=metadata)
    assert torchlint.check_text(nbformat.writes(notebook), "n.ipynb", demo(select=["ZZ", "TL"])) == []


def test_a_cell_in_another_language_is_left_out(demo: MakeSettings) -> None:
    other = new_code_cell("LOUD {", metadata={"vscode": {"languageId": "csharp"}})
    content = nbformat.writes(new_notebook(cells=[other, new_code_cell("x = LOUD")]))
    assert [read(content).position(one.start).cell for one in check(read(content), demo())] == [2]


def test_old_notebooks_give_no_findings(demo: MakeSettings) -> None:
    old = nbformat.writes(nbformat.convert(new_notebook(cells=[new_code_cell("x = LOUD")]), 3), version=3)
    assert torchlint.check_text(old, "n.ipynb", demo(select=["ZZ", "TL"])) == []


# -- the way in


def test_folders_and_names_bring_notebooks(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "n.ipynb").write_text(document("x = LOUD"), encoding="utf-8")
    for arguments in ([], ["n.ipynb"]):
        done = torchlint_in(project, "--output-format", "concise", *arguments)
        assert done.returncode == 1 and done.stdout.count("ZZ101") == 1
    assert torchlint_in(project, "--fix").returncode == 0
    assert texts_in((project / "n.ipynb").read_text(encoding="utf-8")) == ["x = loud"]


def test_standard_input_may_be_a_notebook(project: Path, torchlint_in: RunTorchlint) -> None:
    content = document("x = LOUD", "y = '🙂'")
    done = torchlint_in(project, "-", "--stdin-filename", "n.ipynb", "--fix", stdin=content)
    assert done.stdout == content.replace("x = LOUD", "x = loud")
    assert done.returncode == 0


def test_the_python_api_takes_notebooks(project: Path, demo: MakeSettings) -> None:
    content = document("x = LOUD")
    assert [one.code for one in torchlint.check_text(content, "n.ipynb", demo())] == ["ZZ101"]
    after = torchlint.fix_text(content, "n.ipynb", demo()).source.to_bytes().decode()
    assert after == content.replace("x = LOUD", "x = loud")
    (project / "n.ipynb").write_text(content, encoding="utf-8")
    (result,) = torchlint.check_paths([str(project)], demo())
    assert result.source is not None and result.source.position(result.diagnostics[0].start) == (2, 1, 5)


def test_cells_without_a_file_cannot_be_written() -> None:
    with pytest.raises(SourceError, match="did not come from a file"):
        cells("x = 1").to_bytes()


def test_a_report_of_no_findings_needs_no_cells() -> None:
    out = io.StringIO()
    full.write([Result("n.ipynb")], out)
    assert out.getvalue() == ""
    assert read('{"cells": []}').position(0) == Position(None, 1, 1)
