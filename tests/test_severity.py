"""Which findings fail a run, and how their severity is shown without colour."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

INFO, WARNING = "x = RISKY\n", "x = LOUD\n"


@pytest.mark.parametrize(
    ("text", "arguments", "status"),
    [
        (INFO, [], 0),
        (INFO, ["--fail-on", "warning"], 0),
        (INFO, ["--fail-on", "info"], 1),
        (INFO, ["--fail-on", "info", "--exit-zero"], 0),
        (INFO, ["--config", 'fail-on = "info"'], 1),
        (WARNING, [], 1),
        (WARNING, ["--exit-zero"], 0),
        (INFO + WARNING, [], 1),
        ("x = 1\n", ["--fail-on", "info"], 0),
        ("x = (RISKY\n", [], 1),  # not valid Python
    ],
)
def test_info_findings_fail_a_run_only_if_asked(
    project: Path, torchlint_in: RunTorchlint, text: str, arguments: list[str], status: int
) -> None:
    (project / "a.py").write_text(text)
    assert torchlint_in(project, *arguments).returncode == status
    assert torchlint_in(project, *arguments, "-", stdin=text).returncode == status


def test_an_unknown_severity_is_refused(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, "--fail-on", "inf")
    assert (done.returncode, done.stderr) == (2, "error: command line: unknown `fail-on` 'inf'; did you mean `info`?\n")


def test_a_diff_of_info_findings_and_a_fix_that_was_made_count_as_before(
    project: Path, torchlint_in: RunTorchlint
) -> None:
    (project / "a.py").write_text(INFO)
    assert torchlint_in(project, "--diff", "--unsafe-fixes").returncode == 1
    assert torchlint_in(project, "--fix", "--unsafe-fixes", "--exit-non-zero-on-fix").returncode == 1
    assert (project / "a.py").read_text() == "x = risky\n"


def test_a_baseline_lists_info_findings_too(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text(INFO)
    assert torchlint_in(project, "--baseline", "known.json", "--update-baseline").returncode == 0
    assert "ZZ102" in (project / "known.json").read_text()
    done = torchlint_in(project, "--baseline", "known.json", "--fail-on", "info")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")


def test_severity_is_shown_in_words(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, RISKY\n")
    concise = torchlint_in(project, "--output-format", "concise").stdout.splitlines()
    assert concise == [
        "a.py:1:5: ZZ101 [*] loud-word: LOUD is found",
        "a.py:1:11: ZZ102 [info] risky-word: RISKY is found",
        "2 findings (1 info) in 1 of 1 file; 1 fixable with --fix, 1 more with --fix --unsafe-fixes.",
    ]
    assert "a.py:1:11: ZZ102 [info] risky-word: RISKY is found" in torchlint_in(project).stdout
    assert (
        "  1:11 ZZ102 [info] [*] risky-word"
        in torchlint_in(project, "--output-format", "grouped", "--unsafe-fixes").stdout
    )
    azure = torchlint_in(project, "--output-format", "azure").stdout.splitlines()
    assert azure[1].endswith("code=ZZ102;]info: risky-word: RISKY is found")
    listed = json.loads(torchlint_in(project, "--output-format", "json").stdout)
    assert [item["severity"] for item in listed] == ["warning", "info"]


def test_azure_commands_are_escaped(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a];%b.py").write_text(WARNING)
    place = project / "a%5D%3B%AZP25b.py"
    assert torchlint_in(project, "--output-format", "azure").stdout == (
        f"##vso[task.logissue type=warning;sourcepath={place};linenumber=1;columnnumber=5;code=ZZ101;]"
        "loud-word: LOUD is found\n"
    )
