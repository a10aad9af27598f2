"""Environment variables that stand for options."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.commands import environment
from torchlint.commands.arguments import parser

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def test_settings_come_between_files_and_options(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = RISKY\n")
    variables = {"TORCHLINT_OUTPUT_FORMAT": "pylint", "TORCHLINT_FAIL_ON": "info"}
    done = torchlint_in(project, "--config", 'extend-exclude = ["b"]', env=variables)
    assert (done.returncode, done.stdout) == (1, "a.py:1: [ZZ102] RISKY is found\n")
    done = torchlint_in(project, "--output-format", "concise", "--fail-on", "warning", "-q", env=variables)
    assert (done.returncode, done.stdout) == (0, "a.py:1:5: ZZ102 [info] risky-word: RISKY is found\n")
    assert torchlint_in(project, "-q", env={"TORCHLINT_OUTPUT_FORMAT": ""}).stdout.startswith("a.py:1:5")


def test_a_wrong_value_is_reported_with_the_name_of_the_variable(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, env={"TORCHLINT_OUTPUT_FORMAT": "jsom"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: TORCHLINT_OUTPUT_FORMAT: unknown `output-format` 'jsom'; did you mean `json`?\n"
    done = torchlint_in(project, env={"TORCHLINT_NO_CACHE": "perhaps"})
    assert (done.returncode, done.stderr) == (2, "error: TORCHLINT_NO_CACHE must be true or false, not `perhaps`\n")


@pytest.mark.parametrize(("value", "exists"), [("1", False), ("true", False), ("0", True), ("", True)])
def test_the_cache(tmp_path: Path, torchlint_in: RunTorchlint, value: str, exists: bool) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    torchlint_in(tmp_path, env={"TORCHLINT_NO_CACHE": value, "TORCHLINT_CACHE_DIR": "kept"})
    assert (tmp_path / "kept").exists() is exists
    if exists:
        torchlint_in(tmp_path, "clean", env={"TORCHLINT_CACHE_DIR": "kept"})
        assert not (tmp_path / "kept").exists()


def test_the_report(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    assert torchlint_in(project, env={"TORCHLINT_OUTPUT_FILE": "report.txt"}).stdout == ""
    assert "LOUD is found" in (project / "report.txt").read_text()


def test_the_help_names_each_variable() -> None:
    shown = " ".join(parser().format_help().split())
    for variable in (*environment.SETTINGS, *environment.OPTIONS):
        assert f"[env: {variable}]" in shown
