"""The formats that programs read: what holds of several of them."""

from __future__ import annotations

import json
import ntpath
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample_findings
from conftest import RunTorchlint
from report_readers import fingerprints, junit_suites, sarif_run, workflow_command
from sample_findings import EDITS, FINDINGS, LONG, SHORT, TEXT, finding, notebook, report, results

from torchlint.output import places
from torchlint.rule import Applicability, Diagnostic, Edit, Fix
from torchlint.settings import formats

folder = sample_findings.folder


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_the_same_findings_give_the_same_bytes(folder: Path, name: str) -> None:
    assert report(name, results(*FINDINGS)) == report(name, results(*FINDINGS)) != ""


@pytest.mark.parametrize(
    "name", sorted(set(formats.FORMATS) - {"full", "json", "json-lines", "gitlab", "sarif", "rdjson"})
)
def test_no_character_acts_upon_a_terminal(folder: Path, name: str) -> None:
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", report(name, results(*FINDINGS)))


@pytest.mark.parametrize(
    ("name", "lines"), [("concise", 3), ("json-lines", 3), ("github", 3), ("pylint", 3), ("grouped", 5)]
)
def test_a_line_of_a_report_is_one_whatever_the_message_holds(folder: Path, name: str, lines: int) -> None:
    assert len(report(name, results(*FINDINGS)).split("\n")) == lines + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [("full", ""), ("concise", ""), ("grouped", ""), ("json-lines", ""), ("github", ""), ("pylint", "")],
)
def test_an_empty_run_of_lines_is_empty(folder: Path, name: str, expected: str) -> None:
    assert report(name, results()) == expected


@pytest.mark.parametrize("name", ["sarif", "rdjson"])
def test_what_is_only_shown_is_not_offered_for_application(folder: Path, name: str) -> None:
    shown = Fix("look at it", EDITS, Applicability.DISPLAY)
    text = report(name, results(finding(SHORT, fix=shown)))
    assert "help: look at it (display)" in text
    assert "deletedRegion" not in text and "suggestions" not in text


# --- fingerprints


@pytest.mark.parametrize("name", ["gitlab", "sarif"])
def test_fingerprints_stay_when_lines_move(folder: Path, name: str) -> None:
    before = fingerprints(name, results(*FINDINGS, FINDINGS[1]))
    assert len(set(before)) == 4
    above = "import os\n\n"
    moved = [
        Diagnostic(found.code, found.name, "in other words", found.start + len(above), found.end + len(above))
        for found in (*FINDINGS, FINDINGS[1])
    ]
    assert fingerprints(name, results(*moved, text=above + TEXT)) == before


def test_gitlab_fingerprints_are_unique_over_files(folder: Path) -> None:
    both = [*results(*FINDINGS), *results(*FINDINGS, path="other.py")]
    assert len(set(fingerprints("gitlab", both))) == 6


# --- json-lines, grouped


def test_json_lines_are_the_items_of_the_list(folder: Path) -> None:
    lines = report("json-lines", results(*FINDINGS)).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(report("json", results(*FINDINGS)))


def test_grouped(folder: Path) -> None:
    safe = Fix("do", (Edit(0, 1, "x"),), Applicability.SAFE)
    found = [*results(finding(SHORT), finding(LONG, fix=safe), path="a.py"), *results(finding(SHORT), path="b.py")]
    assert report("grouped", found) == (
        "a.py:\n"
        "  7:14 AB101 some-name: it is so\n"
        "  2:15 AB101 [*] some-name: it is so\n"
        "\n"
        "b.py:\n"
        "  7:14 AB101 some-name: it is so\n"
        "\n"
    )


def test_grouped_places_are_aligned(folder: Path) -> None:
    found = results(finding("a"), finding(SHORT), path="a.py")
    assert report("grouped", found).splitlines()[1:3] == [
        "  1:1  AB101 some-name: it is so",
        "  7:14 AB101 some-name: it is so",
    ]


# --- notebooks, paths


def test_each_format_names_the_cell_of_a_notebook_and_no_row_of_its_file(folder: Path) -> None:
    found = notebook()
    where = "cell 4, line 2: it is so"
    assert report("concise", found).startswith("n.ipynb:cell 4:2:5: AB101 ")
    assert report("grouped", found).splitlines()[1] == "  cell 4:2:5 AB101 [*] some-name: it is so"
    (line,) = map(json.loads, report("json-lines", found).splitlines())
    assert (line["cell"], line["location"]) == (4, {"row": 2, "column": 5})
    assert report("pylint", found) == f"n.ipynb:1: [AB101] {where}\n"
    _, properties, data = workflow_command(report("github", found).rstrip("\n"))
    assert set(properties) == {"title", "file"} and data.startswith("n.ipynb:cell 4:2:5: AB101")
    (item,) = json.loads(report("gitlab", found))
    assert item["description"] == f"AB101: {where}"
    assert item["location"]["positions"]["begin"] == {"line": 1, "column": 1}
    (suite,) = junit_suites(found)
    assert [case.result[0].message for case in suite] == [where]
    (item,) = json.loads(report("rdjson", found))["diagnostics"]
    assert item["message"].startswith(where) and "range" not in item["location"] and "suggestions" not in item
    (item,) = sarif_run(found)["results"]
    assert item["message"]["text"].startswith(where) and "fixes" not in item
    assert item["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (r"C:\work\src\a.py", "src/a.py"),
        (r"C:\other\a.py", None),
        (r"D:\a.py", None),
        (r"C:\work\..a\b.py", "..a/b.py"),
    ],
)
def test_paths_of_windows_are_told_with_slashes(
    monkeypatch: pytest.MonkeyPatch, path: str, expected: str | None
) -> None:
    monkeypatch.setattr(places, "os", SimpleNamespace(path=ntpath, sep="\\", pardir=".."))
    assert places.relative(path, r"C:\work") == expected


def test_standard_input_is_named_so(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    settings = ["--config", 'plugins = ["demo_pack"]', "--select", "ZZ101", "--isolated", "-"]
    for name in sorted(formats.FORMATS):
        done = torchlint_in(tmp_path, *settings, "--output-format", name, stdin="x = LOUD\n")
        assert (done.returncode, done.stderr) == (1, ""), name
        assert str(tmp_path) not in done.stdout.replace(tmp_path.as_uri(), ""), name


# --- files that cannot be checked


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_a_file_that_cannot_be_parsed_or_read_is_a_finding(
    tmp_path: Path, torchlint_in: RunTorchlint, name: str
) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "binary.py").write_bytes(b"\0\1")
    done = torchlint_in(tmp_path, "--isolated", "broken.py", "binary.py", "--output-format", name)
    assert (done.returncode, done.stderr) == (1, "")
    found = done.stdout
    assert found.count("the file cannot be checked") >= 2


# --- --statistics, --sort


def test_statistics_of_the_formats_that_have_them(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, LOUD, OPTED\n")
    loud = {"code": "ZZ101", "name": "loud-word", "count": 2, "fixable": True, "fixable_count": 2}
    opted = {"code": "ZZ201", "name": "opted-word", "count": 1, "fixable": False, "fixable_count": 0}
    for name in ("full", "concise", "grouped"):
        done = torchlint_in(project, "--statistics", "--output-format", name)
        assert done.stdout.splitlines() == [
            "2  ZZ101  [*]  loud-word",
            "1  ZZ201  [ ]  opted-word",
            "3 findings in 1 of 1 file; 2 fixable with --fix.",
        ]
    listed = torchlint_in(project, "--statistics", "--output-format", "json").stdout
    assert json.loads(listed) == [loud, opted]
    lines = torchlint_in(project, "--statistics", "--output-format", "json-lines").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [loud, opted]


@pytest.mark.parametrize("name", ["sarif", "github", "gitlab", "junit", "pylint", "rdjson"])
def test_the_others_have_none_and_say_so_before_anything_is_fixed(
    project: Path, torchlint_in: RunTorchlint, name: str
) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "--statistics", "--fix", "--output-format", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: --statistics cannot be shown as {name}; it can as concise, full, grouped, json, json-lines\n"
    )
    assert (project / "a.py").read_text() == "x = LOUD\n"


def test_sorting_by_gain_leaves_reports_by_file_as_they_are(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\nx = LOUD\n")
    for name in sorted(formats.BY_FILE):
        sort = torchlint_in(project, "--sort", "gain", "--device", "CPU", "--output-format", name)
        assert sort.stdout == torchlint_in(project, "--output-format", name).stdout != "", sort.stderr


# --- imports


def test_formats_are_imported_only_when_they_are_asked_for() -> None:
    code = "import sys, torchlint.output; print([name for name in sys.modules if 'xml' in name or 'rich' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
