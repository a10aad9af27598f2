"""The formats that programs read: each report is read back as its consumer reads it."""

from __future__ import annotations

import io
import json
import ntpath
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import jsonschema
import junitparser
import pytest

from torchlint import output
from torchlint.engine.runner import Result
from torchlint.output import places
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Place, Rule, Severity
from torchlint.settings import formats
from torchlint.source.notebook import Notebook
from torchlint.source.ranges import apply
from torchlint.source.source import Source

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

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


# --- SARIF


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


@pytest.mark.parametrize(
    "found", [results(), results(*FINDINGS), notebook(), [Result("a.py", errors=("a.py: \x00é",))]]
)
def test_sarif_is_valid(folder: Path, sarif_schema: jsonschema.protocols.Validator, found: list[Result]) -> None:
    log = json.loads(report("sarif", found))
    sarif_schema.validate(log)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert len(run["results"]) == sum(len(result.diagnostics) for result in found)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        for location in result["locations"]:  # what GitHub asks for beyond the schema
            assert location["physicalLocation"]["region"]["startLine"] >= 1
            assert location["physicalLocation"]["artifactLocation"]["uri"]


def test_the_schema_refuses_what_is_not_sarif(folder: Path, sarif_schema: jsonschema.protocols.Validator) -> None:
    log = json.loads(report("sarif", results(*FINDINGS)))
    log["runs"][0]["results"][0]["level"] = "info"
    with pytest.raises(jsonschema.ValidationError):
        sarif_schema.validate(log)


def test_sarif_levels_and_messages(folder: Path) -> None:
    run = sarif_run(results(*FINDINGS))
    assert [result["level"] for result in run["results"]] == ["warning", "warning", "note"]
    assert run["results"][1]["message"]["text"] == "it is so\nfix (unsafe: it may differ): write <it>"
    assert run["results"][0]["message"]["text"].startswith(HOSTILE + "\nnote: because")


def test_sarif_uris_lead_to_the_file(folder: Path) -> None:
    run = sarif_run(results(*FINDINGS))
    root = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    assert root.endswith("/") and unquote(urlsplit(root).path) == f"{folder}/"
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uriBaseId"] == "%SRCROOT%"
    assert re.fullmatch(r"[\w./%-]+", place["uri"], re.ASCII)
    assert (folder / unquote(place["uri"])).read_bytes().decode() == TEXT
    outside = sarif_run(results(FINDINGS[0], path="../else where.py"))["results"][0]["locations"][0]
    assert outside["physicalLocation"]["artifactLocation"] == {"uri": (folder.parent / "else where.py").as_uri()}


def test_sarif_regions_hold_what_is_flagged(folder: Path) -> None:
    run = sarif_run(results(*FINDINGS))
    assert run["columnKind"] == "utf16CodeUnits"
    for result, piece in zip(run["results"], (LONG, SHORT, SHORT), strict=True):
        start, end = sarif_cut(TEXT, result["locations"][0]["physicalLocation"]["region"])
        assert TEXT[start:end] == piece


def test_sarif_fixes_can_be_applied(folder: Path) -> None:
    first, second, _ = sarif_run(results(*FINDINGS))["results"]
    assert "fixes" not in first
    (fix,) = second["fixes"]
    assert fix["description"]["text"] == "fix (unsafe: it may differ): write <it>"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == second["locations"][0]["physicalLocation"]["artifactLocation"]
    edits = [
        Edit(*sarif_cut(TEXT, one["deletedRegion"]), one.get("insertedContent", {}).get("text", ""))
        for one in change["replacements"]
    ]
    assert edits == sorted(edits, key=lambda edit: edit.start)
    assert apply(TEXT, edits) == FIXED


@pytest.mark.parametrize("name", ["sarif", "rdjson"])
def test_what_is_only_shown_is_not_offered_for_application(folder: Path, name: str) -> None:
    shown = Fix("look at it", EDITS, Applicability.DISPLAY)
    text = report(name, results(finding(SHORT, fix=shown)))
    assert "suggestion: look at it" in text
    assert "deletedRegion" not in text and "suggestions" not in text


def test_sarif_tells_of_errors(folder: Path) -> None:
    (invocation,) = sarif_run([Result("a.py", errors=("a.py: TL101 crashed",))])["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert (notification["level"], notification["message"]["text"]) == ("error", "a.py: TL101 crashed")
    (invocation,) = sarif_run(results(*FINDINGS))["invocations"]
    assert invocation == {"executionSuccessful": True, "toolExecutionNotifications": []}


def test_sarif_describes_the_rules(
    tmp_path: Path, torchlint_in: RunTorchlint, sarif_schema: jsonschema.protocols.Validator
) -> None:
    (tmp_path / "a.py").write_text("x = LOUD, OPTED\n")
    settings = ["--config", 'plugins = ["demo_pack"]', "--select", "ZZ,TL", "--isolated"]
    done = torchlint_in(tmp_path, *settings, "--output-format", "sarif")
    assert done.returncode == 1
    log = json.loads(done.stdout)
    sarif_schema.validate(log)
    rules = {rule["id"]: rule for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    loud, opted = rules["ZZ101"], rules["ZZ201"]
    page = loud["help"]["markdown"]
    assert page.startswith("# ZZ101 loud-word\n")
    assert loud["name"] == "loud-word"
    assert loud["shortDescription"]["text"] in page and loud["fullDescription"]["text"] in page
    assert loud["defaultConfiguration"] == {"enabled": True, "level": "warning"}
    assert opted["defaultConfiguration"]["enabled"] is False


def test_sarif_describes_a_rule_without_documentation_by_its_name(folder: Path) -> None:
    class Undocumented(Rule):
        code = "QQ101"
        name = "undocumented-rule"

    found = Diagnostic(Undocumented.code, Undocumented.name, "it is so", 0, 1)
    (rule,) = sarif_run(results(found))["tool"]["driver"]["rules"]
    assert rule["shortDescription"] == rule["fullDescription"] == {"text": "undocumented-rule"}


# --- fingerprints


def fingerprints(name: str, found: list[Result]) -> list[str]:
    if name == "gitlab":
        return [item["fingerprint"] for item in json.loads(report(name, found))]
    return [result["partialFingerprints"]["torchlint/v1"] for result in sarif_run(found)["results"]]


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


# --- GitHub


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


def test_github_annotations(folder: Path) -> None:
    first, second, third = map(workflow_command, report("github", results(*FINDINGS)).splitlines())
    path = str(folder / FILE_NAME)
    assert first[:2] == ("warning", {"title": "torchlint (AB101)", "file": path, "line": "2", "endLine": "5"})
    assert first[2].startswith(f'{FILE_NAME}:2:15: AB101 some-name: it\'s "100%" <b>&amp; ]]> ::error::x')
    assert second == (
        "warning",
        {"title": "torchlint (AB101)", "file": path, "line": "7", "col": "14", "endLine": "7", "endColumn": "21"},
        f"{FILE_NAME}:7:14: AB101 some-name: it is so\n  fix (unsafe: it may differ): write <it>",
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


def test_junit(folder: Path) -> None:
    (suite,) = junit_suites(results(*FINDINGS))
    assert suite.name == str(folder / FILE_NAME)
    first, second, third = suite
    assert (second.name, second.classname) == ("org.torchlint.AB101", str(folder / FILE_NAME)[: -len(".py")])
    (failure,) = second.result
    assert (failure.message, failure.type) == ("it is so", "some-name")
    assert failure.text == "line 7, col 14, it is so\nfix (unsafe: it may differ): write <it>"
    assert [case.result[0].message[:20] for case in (first, third)] == ['it\'s "100%" <b>&amp;', "it is so"]
    assert first.result[0].message.endswith("日本🔥")
    severities = ElementTree.fromstring(report("junit", results(*FINDINGS))).iterfind(".//property[@name='severity']")
    assert [found.get("value") for found in severities] == ["warning", "warning", "info"]


def test_junit_of_a_clean_run_is_one_test_that_passes(folder: Path) -> None:
    (suite,) = junit_suites(results())
    (case,) = suite
    assert (case.name, case.result) == ("No findings", [])


# --- json-lines, grouped, pylint


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


def test_pylint(folder: Path) -> None:
    lines = report("pylint", results(*FINDINGS, path="src/a b.py")).splitlines()
    assert lines[1] == "src/a b.py:7: [AB101] it is so"
    for line in lines:  # as Jenkins takes such lines apart
        assert re.fullmatch(r"(?P<path>.*?):(?P<line>\d+): \[(?P<type>\w+)\] (?P<message>.*)", line)


# --- rdjson


def rdjson_cut(text: str, region: dict[str, dict[str, int]]) -> tuple[int, int]:
    """Where a range begins and ends; its columns count bytes of UTF-8."""
    flat = {f"{end}_{key}": region[end][key] for end in ("start", "end") for key in ("line", "column")}
    return cut(text, flat, "utf-8", 1, ("start_line", "start_column", "end_line", "end_column"))


def test_rdjson(folder: Path) -> None:
    log = json.loads(report("rdjson", results(*FINDINGS)))
    assert set(log) == {"source", "severity", "diagnostics"}
    assert (log["source"]["name"], log["severity"]) == ("torchlint", "WARNING")
    first, second, third = log["diagnostics"]
    assert [item["severity"] for item in log["diagnostics"]] == ["WARNING", "WARNING", "INFO"]
    assert (second["code"], second["message"]) == (
        {"value": "AB101"},
        "it is so\nfix (unsafe: it may differ): write <it>",
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


# --- notes


def place_of(text: str, piece: str, path: str = "") -> Place:
    """The place of a piece of a text."""
    start = text.index(piece)
    return Place(start, start + len(piece), path)


OTHER = 's = "🔥"; run(é)\r\nend\n'
NOTED = finding(
    SHORT,
    notes=(
        Note("nothing else is seen"),
        Note("`layers[0](x)` is defined", place_of(TEXT, "call(\n")),
        Note("it runs", place_of(OTHER, "run(é)", "lib/engine.py")),
    ),
)
SAID = ["note: nothing else is seen", "note: `layers[0](x)` is defined at line 2", "note: it runs at lib/engine.py:1"]


@pytest.fixture
def noted(folder: Path) -> list[Result]:
    """A finding with three notes: without a place, in its own file, and in another file."""
    (folder / "lib").mkdir()
    (folder / "lib" / "engine.py").write_bytes(OTHER.encode())
    return results(NOTED)


def test_formats_of_text_say_where_the_evidence_is(noted: list[Result]) -> None:
    assert report("concise", noted) == report("concise", results(finding(SHORT)))
    shown = [line.strip(" =") for line in report("full", noted).splitlines()]
    assert shown[-4:-1] == SAID
    assert workflow_command(report("github", noted).rstrip("\n"))[2].split("\n  ")[1:] == SAID
    ((case,),) = junit_suites(noted)
    assert case.result[0].text.splitlines()[1:] == SAID
    (item,) = json.loads(report("rdjson", noted))["diagnostics"]
    assert item["message"].splitlines()[1:] == SAID
    (item,) = json.loads(report("gitlab", noted))
    assert item["description"] == "AB101: it is so"


def test_json_gives_notes_as_data(folder: Path, noted: list[Result]) -> None:
    (item,) = json.loads(report("json", noted))
    assert item["notes"] == [
        {"cell": None, "filename": None, "location": None, "message": "nothing else is seen"},
        {
            "cell": None,
            "filename": str(folder / FILE_NAME),
            "location": {"row": 2, "column": 15},
            "message": "`layers[0](x)` is defined",
        },
        {
            "cell": None,
            "filename": str(folder / "lib" / "engine.py"),
            "location": {"row": 1, "column": 10},
            "message": "it runs",
        },
    ]


def test_sarif_links_notes_to_locations(
    folder: Path, noted: list[Result], sarif_schema: jsonschema.protocols.Validator
) -> None:
    sarif_schema.validate(json.loads(report("sarif", noted)))
    (item,) = sarif_run(noted)["results"]
    text = item["message"]["text"]
    assert text.splitlines()[1] == SAID[0]
    links = {int(name): shown for shown, name in re.findall(r"(?<!\\)\[((?:[^][\\]|\\.)*)\]\((\w+)\)", text)}
    assert links == {1: "line 2", 2: "lib/engine.py:1"}
    assert [location["id"] for location in item["relatedLocations"]] == [1, 2]
    pieces = []
    for location, content in zip(item["relatedLocations"], (TEXT, OTHER), strict=True):
        physical = location["physicalLocation"]
        assert (folder / unquote(physical["artifactLocation"]["uri"])).read_bytes().decode() == content
        start, end = sarif_cut(content, physical["region"])
        pieces.append((location["message"]["text"].replace("\\", ""), content[start:end]))
    assert pieces == [("`layers[0](x)` is defined", "call(\n"), ("it runs", "run(é)")]
    (folder / "a [1].py").write_bytes(OTHER.encode())
    (item,) = sarif_run(results(finding(SHORT, notes=(Note("it runs", Place(0, 1, "a [1].py")),))))["results"]
    assert item["message"]["text"].endswith("\nnote: it runs at [a \\[1\\].py:1](1)")
    (plain,) = sarif_run(results(finding(SHORT, notes=(Note("because"),))))["results"]
    assert "relatedLocations" not in plain


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_place_in_a_file_that_cannot_be_read_is_named_by_its_path(
    folder: Path, noted: list[Result], content: bytes | None
) -> None:
    path = folder / "lib" / "engine.py"
    path.unlink() if content is None else path.write_bytes(content)
    (item,) = json.loads(report("json", noted))
    assert (item["notes"][2]["filename"], item["notes"][2]["location"]) == (str(path), None)
    assert "= note: it runs at lib/engine.py\n" in report("full", noted)
    (item,) = sarif_run(noted)["results"]
    assert [location["id"] for location in item["relatedLocations"]] == [1]
    assert item["message"]["text"].endswith("\nnote: it runs at lib/engine.py")


def test_notes_of_a_notebook_name_row_and_cell(folder: Path, sarif_schema: jsonschema.protocols.Validator) -> None:
    source = Notebook.from_cells("n.ipynb", [(2, "x = 1\nload('line 1')\n"), (4, "a\nb = call(1)\n")])
    notes = (
        Note("`load('line 1')` is seen", place_of(source.text, "load")),
        Note("it is so", place_of(source.text, "a\nb")),
    )
    start = source.text.index("call")
    found = [Result("n.ipynb", (Diagnostic("AB101", "some-name", "m", start, start + 7, notes=notes),), source)]
    said = ["note: `load('line 1')` is seen at line 2 of cell 2", "note: it is so at line 1"]
    assert [line.strip(" =") for line in report("full", found).splitlines()][-3:-1] == said
    (item,) = json.loads(report("json", found))
    assert [(note["cell"], note["location"], note["message"]) for note in item["notes"]] == [
        (2, {"row": 2, "column": 1}, "`load('line 1')` is seen"),
        (4, {"row": 1, "column": 1}, "it is so"),
    ]
    sarif_schema.validate(json.loads(report("sarif", found)))
    (item,) = sarif_run(found)["results"]
    assert item["message"]["text"].splitlines()[1:] == said and "relatedLocations" not in item
    (item,) = json.loads(report("rdjson", found))["diagnostics"]
    assert item["message"].splitlines()[1:] == said


@pytest.mark.parametrize("name", ["gitlab", "sarif"])
def test_fingerprints_do_not_depend_on_notes(folder: Path, noted: list[Result], name: str) -> None:
    assert fingerprints(name, noted) == fingerprints(name, results(finding(SHORT)))


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


# --- --statistics


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


# --- --output-file


def test_the_report_goes_to_a_file(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "é.py").write_text("x = LOUD\n", encoding="utf-8")
    for name in sorted(formats.FORMATS):
        said = torchlint_in(project, "--output-format", name)
        done = torchlint_in(project, "--output-format", name, "-o", "out.txt")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
        assert (project / "out.txt").read_bytes().decode() == said.stdout
    assert sorted(entry.name for entry in project.iterdir()) == ["out.txt", "torchlint.toml", "é.py"]


def test_no_terminal_codes_in_a_file(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    colours = {"FORCE_COLOR": "1"}
    assert "\x1b[" in torchlint_in(project, env=colours).stdout
    torchlint_in(project, "--output-file", "out.txt", env=colours)
    assert "ZZ101" in (project / "out.txt").read_text() and "\x1b" not in (project / "out.txt").read_text()


def test_a_report_replaces_an_older_one_whole(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = 1\n")
    (project / "real.txt").write_text("older and longer" * 1000)
    (project / "real.txt").chmod(0o640)
    (project / "link.txt").symlink_to("real.txt")
    assert torchlint_in(project, "-o", "link.txt").returncode == 0
    assert (project / "real.txt").read_text() == "No findings in 1 file.\n"
    assert (project / "link.txt").is_symlink()
    assert stat.S_IMODE((project / "real.txt").stat().st_mode) == 0o640
    torchlint_in(project, "-o", "new.txt")
    (project / "plain.txt").write_text("")
    assert (project / "new.txt").stat().st_mode == (project / "plain.txt").stat().st_mode


def test_what_is_no_regular_file_is_written_to_and_stays_what_it_is(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    os.mkfifo(project / "pipe")
    with subprocess.Popen(["cat", str(project / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        assert torchlint_in(project, "-o", "pipe", "--output-format", "pylint").returncode == 1
        assert reader.communicate(timeout=60)[0] == "a.py:1: [ZZ101] LOUD is found\n"
    assert stat.S_ISFIFO((project / "pipe").stat().st_mode)
    assert torchlint_in(project, "-o", "/dev/stdout", "--output-format", "pylint").stdout.startswith("a.py:1: ")


@pytest.mark.parametrize(
    ("path", "reason"),
    [("no/where.txt", "there is no folder"), (".", "it is a folder"), ("torchlint.toml/x", "there is no folder")],
)
def test_where_no_report_can_be_written_nothing_is_done(
    project: Path, torchlint_in: RunTorchlint, path: str, reason: str
) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "--fix", "--output-file", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: --output-file {path}: cannot be written: {reason}")
    assert done.stderr.count("\n") == 1
    assert (project / "a.py").read_text() == "x = LOUD\n"


def test_a_run_that_fails_leaves_the_older_report(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "out.txt").write_text("older")
    assert torchlint_in(project, "--select", "ZZ999", "-o", "out.txt").returncode == 2
    assert (project / "out.txt").read_text() == "older"


def test_of_standard_input_the_file_gets_the_report_and_standard_output_the_code(
    project: Path, torchlint_in: RunTorchlint
) -> None:
    done = torchlint_in(project, "-", "--fix", "-o", "out.txt", stdin="x = LOUD\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "LOUD" not in done.stdout and done.stdout.startswith("x = ")
    assert (project / "out.txt").read_text() == "Fixed 1 finding. No findings left in 1 file.\n"


def test_sorting_by_speedup_leaves_reports_by_file_as_they_are(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\nx = LOUD\n")
    for name in sorted(formats.BY_FILE):
        sort = torchlint_in(project, "--sort", "speedup", "--device", "CPU", "--output-format", name)
        assert sort.stdout == torchlint_in(project, "--output-format", name).stdout != "", sort.stderr


def test_formats_are_imported_only_when_they_are_asked_for() -> None:
    code = "import sys, torchlint.output; print([name for name in sys.modules if 'xml' in name or 'rich' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
