"""SARIF: reports are valid, and lead to the files, places, fixes and rules that they tell of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
import report_readers
import sample_findings
from conftest import RunTorchlint
from report_readers import sarif_cut, sarif_run
from sample_findings import FINDINGS, FIXED, HOSTILE, LONG, SHORT, TEXT, notebook, report, results

from torchlint.engine.results import Result
from torchlint.rule import Diagnostic, Edit, Rule
from torchlint.source.ranges import apply

folder = sample_findings.folder
sarif_schema = report_readers.sarif_schema


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
    assert run["results"][1]["message"]["text"] == "it is so\nhelp: write <it> (unsafe: it may differ)"
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
    assert fix["description"]["text"] == "help: write <it> (unsafe: it may differ)"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == second["locations"][0]["physicalLocation"]["artifactLocation"]
    edits = [
        Edit(*sarif_cut(TEXT, one["deletedRegion"]), one.get("insertedContent", {}).get("text", ""))
        for one in change["replacements"]
    ]
    assert edits == sorted(edits, key=lambda edit: edit.start)
    assert apply(TEXT, edits) == FIXED


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
