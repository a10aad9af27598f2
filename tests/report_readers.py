"""Reads reports as their consumers read them: what a format says of findings, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest
from sample_findings import report

from torchlint.engine.results import Result


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema.protocols.Validator:
    schema = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def sarif_run(found: list[Result]) -> dict[str, Any]:
    """The run of a SARIF report."""
    (run,) = json.loads(report("sarif", found))["runs"]
    return dict(run)


def cut(
    text: str, region: dict[str, int], encoding: str, unit: int, names: tuple[str, str, str, str]
) -> tuple[int, int]:
    """Where a region begins and ends in ``text``, if columns count units of an encoding."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z|\Z", text)
    offsets = []
    for row, column in ((region[names[0]], region[names[1]]), (region[names[2]], region[names[3]])):
        before = lines[row - 1].encode(encoding)[: (column - 1) * unit].decode(encoding)
        offsets.append(sum(map(len, lines[: row - 1])) + len(before))
    return offsets[0], offsets[1]


def sarif_cut(text: str, region: dict[str, int]) -> tuple[int, int]:
    return cut(text, region, "utf-16-le", 2, ("startLine", "startColumn", "endLine", "endColumn"))


def rdjson_cut(text: str, region: dict[str, dict[str, int]]) -> tuple[int, int]:
    """Where a range begins and ends; its columns count bytes of UTF-8."""
    flat = {f"{end}_{key}": region[end][key] for end in ("start", "end") for key in ("line", "column")}
    return cut(text, flat, "utf-8", 1, ("start_line", "start_column", "end_line", "end_column"))


def fingerprints(name: str, found: list[Result]) -> list[str]:
    if name == "gitlab":
        return [item["fingerprint"] for item in json.loads(report(name, found))]
    return [result["partialFingerprints"]["torchlint/v1"] for result in sarif_run(found)["results"]]


def workflow_command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command, taken apart as GitHub's runner does it."""
    assert line.startswith("::")
    end = line.index("::", 2)
    command, _, listed = line[2:end].partition(" ")
    escapes = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")]

    def plain(text: str, known: list[tuple[str, str]]) -> str:
        for escape, char in known:
            text = text.replace(escape, char)
        return text

    properties = dict(pair.split("=", 1) for pair in listed.split(","))
    data = plain(line[end + 2 :], [escape for escape in escapes if escape[0] not in ("%3A", "%2C")])
    return command, {key: plain(value, escapes) for key, value in properties.items()}, data


def junit_suites(found: list[Result]) -> list[junitparser.TestSuite]:
    """The suites of a report, whose numbers are those of the cases."""
    parsed = junitparser.JUnitXml.fromstring(report("junit", found).encode())
    for suite in parsed:
        failed = sum(bool(case.result) for case in suite)
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (len(list(suite)), failed, 0, 0)
    assert (parsed.tests, parsed.failures) == (
        sum(len(list(one)) for one in parsed),
        sum(one.failures for one in parsed),
    )
    return list(parsed)
