"""Notebooks: cells make one module, places are named by cell, and what is no notebook is left alone."""

# mypy: allow-untyped-calls

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import nbformat
import pytest
from conftest import MakeSettings, RunTorchlint
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook
from notebook_files import cells, document, fixed, read, texts_in

import torchlint
from torchlint.engine.checker import check
from torchlint.engine.results import Mode, Request, Result
from torchlint.engine.work import run_file
from torchlint.output import full
from torchlint.settings.files import File
from torchlint.source.source import Position, Source, SourceError

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
    full.write([run_file(File(str(path), settings, named=True), Request(Mode.CHECK))], out)
    assert "`x['line 2'].item()` in compiled code reads a tensor value" in out.getvalue()
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


def test_a_file_that_is_no_notebook_has_no_cells() -> None:
    source = Source.from_text("a\nb", "a.py")
    assert source.position(2) == Position(None, 2, 1)
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
    result = run_file(File(str(path), demo(), named=True), Request(Mode.DIFF))
    assert result.diff.replace(str(path), "n.ipynb") == (
        "--- n.ipynb:cell 2\n+++ n.ipynb:cell 2\n@@ -1 +1 @@\n-x = LOUD\n\\ No newline at end of file\n+x = loud\n"
        "\\ No newline at end of file\n"
        "--- n.ipynb:cell 4\n+++ n.ipynb:cell 4\n@@ -1,2 +1,2 @@\n-z = LOUD\n+z = loud\n z\n"
    )


# -- files that are no notebooks, or not of Python


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON: Expecting value on line 1"),
        ("{\n'cells': []}", "not JSON: .* on line 2"),
        ("[]", "its JSON is not an object"),
        ("{}", "no list of `cells`"),
        ('{"cells": {}}', "no list of `cells`"),
        ('{"cells": [1]}', "cell 1 is not an object"),
        ('{"cells": [{"cell_type": "code"}]}', "the `source` of cell 1 is not text"),
        ('{"cells": [{"cell_type": "code", "source": ["a", 1]}]}', "the `source` of cell 1 is not text"),
        ('{"cells": ' + "[" * 200_000, "nested too deeply|not JSON"),
        ('{"cells": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply|cell 1 is not an object"),
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
    result = run_file(File(str(path), demo(select=["TL"]), named=False), Request(Mode.FIX))
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
