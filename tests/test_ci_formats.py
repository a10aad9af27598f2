"""The formats of services that check code: GitHub, GitLab, JUnit, pylint, reviewdog."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sample_findings
from report_readers import junit_suites, rdjson_cut, workflow_command
from sample_findings import FILE_NAME, FINDINGS, FIXED, HOSTILE, LONG, SHORT, TEXT, report, results

from torchlint.rule import Edit
from torchlint.source.ranges import apply

folder = sample_findings.folder


# --- GitHub


def test_github_annotations(folder: Path) -> None:
    first, second, third = map(workflow_command, report("github", results(*FINDINGS)).splitlines())
    path = str(folder / FILE_NAME)
    assert first[:2] == ("warning", {"title": "torchlint (AB101)", "file": path, "line": "2", "endLine": "5"})
    assert first[2].startswith(f'{FILE_NAME}:2:15: AB101 some-name: it\'s "100%" <b>&amp; ]]> ::error::x')
    assert second == (
        "warning",
        {"title": "torchlint (AB101)", "file": path, "line": "7", "col": "14", "endLine": "7", "endColumn": "21"},
        f"{FILE_NAME}:7:14: AB101 some-name: it is so\n  help: write <it> (unsafe: it may differ)",
    )
    assert third[0] == "notice"


# --- GitLab


def test_gitlab_code_quality(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = json.loads(report("gitlab", results(*FINDINGS)))
    for item in (first, second, third):
        assert set(item) == {"check_name", "description", "severity", "fingerprint", "location"}
    assert first["description"] == f"AB101: {HOSTILE}"
    assert second == {
        "check_name": "AB101",
        "description": "AB101: it is so",
        "severity": "minor",
        "fingerprint": second["fingerprint"],
        "location": {
            "path": FILE_NAME,
            "positions": {"begin": {"line": 7, "column": 14}, "end": {"line": 7, "column": 21}},
        },
    }
    assert third["severity"] == "info"
    monkeypatch.setenv("CI_PROJECT_DIR", str(folder.parent))
    in_project = json.loads(report("gitlab", results(*FINDINGS)))[0]
    assert in_project["location"]["path"] == f"{folder.name}/{FILE_NAME}"
    assert json.loads(report("gitlab", results())) == []


# --- JUnit


def test_junit(folder: Path) -> None:
    (suite,) = junit_suites(results(*FINDINGS))
    assert suite.name == str(folder / FILE_NAME)
    first, second, third = suite
    assert (second.name, second.classname) == ("org.torchlint.AB101", str(folder / FILE_NAME)[: -len(".py")])
    (failure,) = second.result
    assert (failure.message, failure.type) == ("it is so", "some-name")
    assert failure.text == "line 7, col 14, it is so\nhelp: write <it> (unsafe: it may differ)"
    assert [case.result[0].message[:20] for case in (first, third)] == ['it\'s "100%" <b>&amp;', "it is so"]
    assert first.result[0].message.endswith("日本🔥")
    severities = ElementTree.fromstring(report("junit", results(*FINDINGS))).iterfind(".//property[@name='severity']")
    assert [found.get("value") for found in severities] == ["warning", "warning", "info"]


def test_junit_of_a_clean_run_is_one_test_that_passes(folder: Path) -> None:
    (suite,) = junit_suites(results())
    (case,) = suite
    assert (case.name, case.result) == ("No findings", [])


# --- pylint


def test_pylint(folder: Path) -> None:
    lines = report("pylint", results(*FINDINGS, path="src/a b.py")).splitlines()
    assert lines[1] == "src/a b.py:7: [AB101] it is so"
    for line in lines:  # as Jenkins takes such lines apart
        assert re.fullmatch(r"(?P<path>.*?):(?P<line>\d+): \[(?P<type>\w+)\] (?P<message>.*)", line)


# --- rdjson


def test_rdjson(folder: Path) -> None:
    log = json.loads(report("rdjson", results(*FINDINGS)))
    assert set(log) == {"source", "severity", "diagnostics"}
    assert (log["source"]["name"], log["severity"]) == ("torchlint", "WARNING")
    first, second, third = log["diagnostics"]
    assert [item["severity"] for item in log["diagnostics"]] == ["WARNING", "WARNING", "INFO"]
    assert (second["code"], second["message"]) == (
        {"value": "AB101"},
        "it is so\nhelp: write <it> (unsafe: it may differ)",
    )
    assert first["message"] == f"{HOSTILE}\nnote: because\nof"
    for item, piece in zip(log["diagnostics"], (LONG, SHORT, SHORT), strict=True):
        assert item["location"]["path"] == str(folder / FILE_NAME)
        start, end = rdjson_cut(TEXT, item["location"]["range"])
        assert TEXT[start:end] == piece
    assert "suggestions" not in first and "suggestions" not in third


def test_an_rdjson_suggestion_is_the_whole_fix(folder: Path) -> None:
    _, second, _ = json.loads(report("rdjson", results(*FINDINGS)))["diagnostics"]
    (suggestion,) = second["suggestions"]  # taken or left one by one: half of a fix would break the code
    assert apply(TEXT, [Edit(*rdjson_cut(TEXT, suggestion["range"]), suggestion["text"])]) == FIXED
