"""The baseline: what it holds back, how it survives edits, and how it is kept up to date."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_cases import FIXTURES

import torchlint
from torchlint.engine.checker import check
from torchlint.findings.baseline import Baseline, BaselineError, entries, load, unknown
from torchlint.source.source import Source

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

DEMO = torchlint.load_settings(None, {"plugins": ["demo_pack"], "select": ["ZZ101", "ZZ102", "TL001"]})
JUDGED = {"ZZ101", "ZZ102", "TL001"}


def baseline_of(text: str) -> Baseline:
    """The baseline of one file ``a.py`` with this text."""
    source = Source.from_text(text, "/p/a.py")
    return Baseline("/p/known.json", {"a.py": entries(source, check(source, DEMO))})


def new_in(text: str, known: Baseline, path: str = "/p/a.py") -> tuple[list[int], int]:
    """The rows of the findings in ``text`` that the baseline does not list, and how many listed ones are gone."""
    source = Source.from_text(text, path)
    left, gone = unknown(known, source, check(source, DEMO), JUDGED)
    return [source.location(diagnostic.start)[0] for diagnostic in left], gone


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("x = LOUD\n", "x = LOUD\n", ([], 0), id="nothing changed"),
        pytest.param("x = LOUD\n", "# new\n\ny = 1\nx = LOUD\n", ([], 0), id="moved down"),
        pytest.param("def f():\n    x = LOUD\n", "x = LOUD\n", ([], 0), id="another indentation"),
        pytest.param("y = 1\nx = LOUD\nz = 2\n", "y = 3\nx = LOUD\nz = 4\n", ([], 0), id="other neighbours"),
        pytest.param("x = LOUD\ny = 1\n", "x = LOUD\r\ny = 1\r\n", ([], 0), id="other newlines"),
        pytest.param("x=LOUD\n", "x = LOUD  # noqa: E501\n", ([], 0), id="formatted, and commented"),
        pytest.param("x = LOUD\n", "if x:\n\tx = LOUD\n", ([], 0), id="tabs"),
        pytest.param("x = LOUD\n", "other = LOUD\n", ([1], 1), id="the statement itself changed"),
        pytest.param("x = LOUD\n", "x = LOUD\nx = LOUD\n", ([2], 0), id="once known, found twice"),
        pytest.param("x = LOUD\nx = LOUD\n", "x = LOUD\n", ([], 1), id="twice known, found once"),
        pytest.param("x = LOUD\nx = LOUD\n", "x = LOUD\ny = 1\nx = LOUD\n", ([], 0), id="twice known, found twice"),
        pytest.param("x = LOUD\n", "x = RISKY\n", ([1], 1), id="another rule"),
        pytest.param("x = LOUD\n", "y = 1\n", ([], 1), id="mended"),
        pytest.param("x = LOUD\n", "x = LOUD  # noqa: ZZ101\n", ([], 1), id="suppressed since"),
        pytest.param("x = 1  # noqa: ZZ101\n", "\nx = 1  # noqa: ZZ101\n", ([], 0), id="an unused suppression"),
    ],
)
def test_what_a_baseline_holds_back(before: str, after: str, expected: tuple[list[int], int]) -> None:
    assert new_in(after, baseline_of(before)) == expected


def test_a_renamed_file_is_new() -> None:
    assert new_in("x = LOUD\n", baseline_of("x = LOUD\n"), path="/p/b.py") == ([1], 0)


def test_a_listed_finding_is_not_gone_if_its_rule_did_not_run() -> None:
    source = Source.from_text("y = 1\n", "/p/a.py")
    assert unknown(baseline_of("x = LOUD, RISKY\n"), source, [], {"ZZ102"}) == ([], 1)


_LINES = st.lists(st.sampled_from(["x = LOUD", "y = LOUD", "z = RISKY, LOUD", "a = 1", ""]), max_size=12)


@given(_LINES, st.data())
def test_lines_may_be_inserted_and_indented_anywhere(lines: list[str], data: st.DataObject) -> None:
    known = baseline_of("\n".join(lines) + "\n")
    edited = []
    for line in lines:
        edited += data.draw(st.lists(st.sampled_from(["", "# new", "b = 2"]), max_size=2))
        edited += ["if x:", f"    {line}"] if line and data.draw(st.booleans()) else [line]
    assert new_in(data.draw(st.sampled_from(["\n", "\r\n", "\r"])).join([*edited, ""]), known) == ([], 0)


@given(_LINES, _LINES)
def test_what_is_new_and_what_is_gone_makes_up_the_difference(before: list[str], after: list[str]) -> None:
    known = baseline_of("\n".join(before))
    source = Source.from_text("\n".join(after), "/p/a.py")
    found = check(source, DEMO)
    left, gone = unknown(known, source, found, JUDGED)
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    assert len(left) == sum(count * len(set(line.split()) & {"LOUD", "RISKY,"}) for line, count in added.items())
    assert gone == sum(count * len(set(line.split()) & {"LOUD", "RISKY,"}) for line, count in removed.items())


def test_the_file_is_meant_for_reviewers_and_merges(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "b.py").write_text("x = RISKY, LOUD\n")
    (project / "a.py").write_text("if x:\n    y = LOUD, '日" + "x" * 200 + "'\n")
    done = torchlint_in(project, "--baseline", "known.json", "--update-baseline")
    assert (done.returncode, done.stderr) == (0, "known.json lists 3 findings now: 3 added, 0 removed.\n")
    text = (project / "known.json").read_text()
    table = json.loads(text)
    assert json.dumps(table, indent=2, sort_keys=True) + "\n" == text
    assert list(table) == ["findings", "version"]
    assert list(table["findings"]) == ["a.py", "sub/b.py"]
    (first,) = table["findings"]["a.py"]
    assert (first["code"], first["line"]) == ("ZZ101", ("y = LOUD, '日" + "x" * 200)[:100])
    assert [entry["code"] for entry in table["findings"]["sub/b.py"]] == ["ZZ101", "ZZ102"]
    assert "row" not in text


def test_evidence_may_move(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    text = (FIXTURES / "single-process-dataloader" / "before.py").read_text(encoding="utf-8")
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    options = ["--isolated", "--baseline", "known.json", "a.py"]
    assert torchlint_in(tmp_path, *options, "--update-baseline").returncode == 0
    assert torchlint_in(tmp_path, *options).returncode == 0
    moved = text.replace("    losses = []\n", "    losses = []\n\n\n")
    assert moved != text
    (tmp_path / "a.py").write_text(moved, encoding="utf-8")
    assert torchlint_in(tmp_path, *options).returncode == 0
    assert torchlint_in(tmp_path, "--isolated", "a.py").returncode == 1


@pytest.fixture
def adopted(project: Path, torchlint_in: RunTorchlint) -> Path:
    """A project whose findings (two in ``a.py``, one in ``b.py``) are in the baseline that its settings name."""
    (project / "a.py").write_text("x = LOUD\ny = RISKY\n")
    (project / "b.py").write_text("x = LOUD\n")
    with (project / "torchlint.toml").open("a") as settings:
        settings.write('baseline = "known.json"\n')
    assert torchlint_in(project, "--update-baseline").returncode == 0
    return project


def test_known_findings_are_not_reported(adopted: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(adopted)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No findings in 2 files.\n", "")
    (adopted / "b.py").write_text("new = LOUD\nx = LOUD\n")
    done = torchlint_in(adopted, "--output-format", "concise")
    assert done.returncode == 1
    assert [line.split(" ")[0] for line in done.stdout.splitlines()[:-1]] == ["b.py:1:7:"]


def test_every_caller_knows_them(adopted: Path, torchlint_in: RunTorchlint) -> None:
    assert torchlint_in(adopted / "..", str(adopted)).returncode == 0
    assert torchlint_in(adopted, "-", "--stdin-filename", "a.py", stdin="\ny = RISKY\nx = LOUD\n").returncode == 0
    assert torchlint_in(adopted, "-", "--stdin-filename", "c.py", stdin="x = LOUD\n").returncode == 1
    settings = torchlint.load_settings(str(adopted))
    path = str(adopted / "a.py")
    assert torchlint.check_text("x = LOUD\ny = RISKY\n", path, settings) == []
    assert [found.code for found in torchlint.check_text("x = LOUD\nz = RISKY\n", path, settings)] == ["ZZ102"]
    assert pickle.loads(pickle.dumps(settings)).baseline == str(adopted / "known.json")


def test_known_findings_are_not_fixed(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = LOUD\nz = LOUD\n")
    assert torchlint_in(adopted, "--fix").returncode == 0
    assert (adopted / "a.py").read_text() == "x = LOUD\nz = loud\n"


def test_nor_suppressed_by_comments(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = LOUD\nz = LOUD\n")
    assert torchlint_in(adopted, "--add-noqa").returncode == 0
    assert (adopted / "a.py").read_text() == "x = LOUD\nz = LOUD  # noqa: ZZ101\n"


def test_a_suppression_of_a_known_finding_is_used(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = LOUD  # noqa: ZZ101\ny = RISKY\n")
    assert "TL001" not in torchlint_in(adopted, "--extend-select", "TL001").stdout


def test_what_is_gone_is_told_but_no_failure(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("y = RISKY\n")
    done = torchlint_in(adopted)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "No findings in 2 files.",
        "1 finding of the baseline no longer occurs; --update-baseline removes it.",
    ]
    (adopted / "b.py").unlink()
    assert torchlint_in(adopted).stdout.splitlines()[1:] == [
        "2 findings of the baseline no longer occur; --update-baseline removes them."
    ]
    assert torchlint_in(adopted, "--quiet").stdout == ""
    assert torchlint_in(adopted, "--output-format", "json").stdout == "[]\n"
    assert torchlint_in(adopted, "--update-baseline").stderr == "known.json lists 1 finding now: 0 added, 2 removed.\n"
    assert torchlint_in(adopted).stdout == "No findings in 1 file.\n"


def test_nothing_is_called_gone_where_nothing_could_be_judged(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = LOUD (\n")
    done = torchlint_in(adopted, "--output-format", "concise")
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == ["a.py:1:10:", "1"]
    (adopted / "a.py").write_text("")
    assert "gone" not in torchlint_in(adopted, "--select", "ZZ201").stdout


def listed(path: Path) -> dict[str, list[str]]:
    """The codes that a baseline lists by file."""
    table: dict[str, Any] = json.loads(path.read_text())["findings"]
    return {name: [entry["code"] for entry in found] for name, found in table.items()}


def test_an_update_of_some_files_leaves_the_others(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("z = LOUD\n")
    (adopted / "b.py").write_text("z = RISKY\n")
    assert torchlint_in(adopted, "--update-baseline", "a.py").returncode == 0
    assert listed(adopted / "known.json") == {"a.py": ["ZZ101"], "b.py": ["ZZ101"]}


def test_an_update_with_some_rules_leaves_the_others(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = 1\n")
    assert torchlint_in(adopted, "--update-baseline", "--select", "ZZ102").returncode == 0
    assert listed(adopted / "known.json") == {"a.py": ["ZZ101"], "b.py": ["ZZ101"]}


def test_an_update_leaves_what_could_not_be_judged(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "a.py").write_text("x = LOUD (\n")
    (adopted / "b.py").write_text("x = LOUD, CRASH\n")
    done = torchlint_in(adopted, "--update-baseline", "--output-format", "concise")
    assert done.returncode == 2
    assert done.stdout.startswith("a.py:1:10: TL002 ")
    assert listed(adopted / "known.json") == {"a.py": ["ZZ101", "ZZ102"], "b.py": ["ZZ101"]}


def test_an_update_without_changes_does_not_touch_the_file(adopted: Path, torchlint_in: RunTorchlint) -> None:
    before = (adopted / "known.json").stat().st_mtime_ns
    (adopted / "a.py").write_text("\n\ny = RISKY\n\nx = LOUD\n")
    assert torchlint_in(adopted, "--update-baseline").stderr == "known.json lists 3 findings now: 0 added, 0 removed.\n"
    assert (adopted / "known.json").stat().st_mtime_ns == before


def test_an_update_may_fix_first(adopted: Path, torchlint_in: RunTorchlint) -> None:
    assert torchlint_in(adopted, "--update-baseline", "--fix").returncode == 0
    assert listed(adopted / "known.json") == {"a.py": ["ZZ102"]}
    assert (adopted / "b.py").read_text() == "x = loud\n"


def test_where_a_relative_path_leads(adopted: Path, torchlint_in: RunTorchlint) -> None:
    (adopted / "sub").mkdir()
    (adopted / "sub" / "c.py").write_text("x = LOUD\n")
    assert torchlint_in(adopted / "sub", "--update-baseline").returncode == 0, "the setting: beside its file"
    assert listed(adopted / "known.json")["sub/c.py"] == ["ZZ101"]
    arguments = ["--baseline", "own.json"]
    assert torchlint_in(adopted / "sub", *arguments, "--update-baseline", "..").returncode == 0
    assert list(listed(adopted / "sub" / "own.json")) == ["../a.py", "../b.py", "c.py"], "the option: from here"
    assert torchlint_in(adopted / "sub", *arguments, "..").returncode == 0


def test_an_empty_path_means_none(adopted: Path, torchlint_in: RunTorchlint) -> None:
    assert torchlint_in(adopted, "--baseline", "").returncode == 1


def test_notebooks_have_a_baseline_too(project: Path, torchlint_in: RunTorchlint) -> None:
    def notebook(*sources: str) -> str:
        cells: list[dict[str, Any]] = [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
            for source in sources
        ]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})

    (project / "n.ipynb").write_text(notebook("%time 1\nx = LOUD", "x = LOUD"))
    arguments = ["--baseline", "known.json", "n.ipynb"]
    assert torchlint_in(project, *arguments, "--update-baseline").returncode == 0
    (project / "n.ipynb").write_text(notebook("y = 1", "\nx = LOUD\n", "!ls", "x = LOUD"))
    assert torchlint_in(project, *arguments).returncode == 0
    (project / "n.ipynb").write_text(notebook("x = LOUD", "x = LOUD", "x = LOUD"))
    assert "n.ipynb:cell 3:1:5: " in torchlint_in(project, *arguments, "--output-format", "concise").stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such baseline; write it with --update-baseline"),
        ("", "not a baseline: not valid JSON: "),
        ("[" * 100_000, "not a baseline: not valid JSON: "),
        ("<<<<<<< ours\n{}\n", "not a baseline: not valid JSON: "),
        ("[]", "not a baseline: it has no version"),
        ("{}", "not a baseline: it has no version"),
        ('{"version": 2}', "version 2 of the baseline is not known to this torchlint"),
        ('{"version": 1}', "not a baseline: `findings` must list code, fingerprint and line by file"),
        ('{"version": 1, "findings": []}', "not a baseline: `findings` must list"),
        ('{"version": 1, "findings": {"a.py": [3]}}', "not a baseline: `findings` must list"),
        ('{"version": 1, "findings": {"a.py": [{"code": "ZZ101"}]}}', "not a baseline: `findings` must list"),
    ],
)
def test_a_missing_or_broken_baseline_is_one_line(
    project: Path, torchlint_in: RunTorchlint, content: str | None, message: str
) -> None:
    if content is not None:
        (project / "known.json").write_text(content)
    with pytest.raises(BaselineError, match="^" + message.partition(":")[0]):
        load(str(project / "known.json"))
    done = torchlint_in(project, "--baseline", "known.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: known.json: {message}")
    assert done.stderr.count("\n") == 1
    if content is not None:
        assert torchlint_in(project, "--baseline", "known.json", "--update-baseline").returncode == 2
        assert (project / "known.json").read_text() == content


def test_an_update_needs_a_place(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "--update-baseline")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --update-baseline needs a baseline: give --baseline FILE, or set `baseline`\n",
    )
    done = torchlint_in(project, "--baseline", "nowhere/known.json", "--update-baseline")
    assert (done.returncode, done.stderr) == (
        2,
        "error: nowhere/known.json: cannot be written: No such file or directory\n",
    )


def test_a_baseline_that_changes_is_read_again(adopted: Path) -> None:
    """As a language server needs it, which keeps its settings."""
    settings = torchlint.load_settings(str(adopted))
    path = str(adopted / "a.py")
    assert torchlint.check_text("x = LOUD\n", path, settings) == []
    (adopted / "known.json").write_text('{"version": 1, "findings": {}}')
    assert len(torchlint.check_text("x = LOUD\n", path, settings)) == 1
