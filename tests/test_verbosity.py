"""How much a run prints: `--verbose`, `--quiet`, `--silent`; and what it would check, and with which settings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import torchlint

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def test_silent_prints_nothing_but_the_status_stays(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    for arguments, status in (([], 1), (["--output-format", "json"], 1), (["nowhere.py"], 2), (["--diff"], 1)):
        done = torchlint_in(project, "--silent", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    done = torchlint_in(project, "-s", "--fix", "-", stdin="x = LOUD\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x = loud\n", "")
    torchlint_in(project, "-s", "-o", "report.txt", "--output-format", "pylint")
    assert (project / "report.txt").read_text() == "a.py:1: [ZZ101] LOUD is found\n"


def test_verbose_tells_of_settings_rules_and_cache(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    (project / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["torch>=2.4"]\n')
    done = torchlint_in(project, "-v", "--output-format", "pylint")
    assert done.stdout == "a.py:1: [ZZ101] LOUD is found\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"[verbose] torchlint {torchlint.__version__}, Python 3.")
    assert lines[1:3] == [
        "[verbose] settings: torchlint.toml, command line",
        "[verbose] oldest supported torch: 2.4",
    ]
    assert lines[4] == "[verbose] cache: .torchlint_cache"
    assert lines[5].startswith("[verbose] 1 file checked in ")
    assert "[verbose] cache: none" in torchlint_in(project, "-v", "--no-cache").stderr


def test_the_amounts_exclude_each_other(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, "-v", "-s")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: argument -s/--silent: not allowed with argument -v/--verbose\n"


def test_the_files_that_would_be_checked_are_listed(project: Path, torchlint_in: RunTorchlint) -> None:
    for name in ("a.py", "b.ipynb", "c.txt", "venv/d.py", "sub/e.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("x = LOUD\n")
    done = torchlint_in(project, "--show-files")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [str(project / name) for name in ("a.py", "b.ipynb", "sub/e.py")]
    assert torchlint_in(project, "--show-files", "--exclude", "sub", "venv/d.py").stdout == f"{project / 'venv/d.py'}\n"
    assert torchlint_in(project, "--show-files", "nowhere.py").returncode == 2


def test_settings_are_shown_with_those_of_the_command_line(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("")
    shown = torchlint_in(project, "--show-settings", "--ignore", "ZZ102", "--target-torch", "2.10", "a.py").stdout
    lines = shown.splitlines()
    assert lines[:1] == ["torchlint.toml:"]
    assert "command line:" in lines and '    ignore = ["ZZ102"]' in lines
    assert "target-torch: 2.10" in lines
    assert "ZZ101" in shown.partition("rules: ")[2] and "ZZ102" not in shown.partition("rules: ")[2]
    plain = torchlint_in(project, "--show-settings").stdout
    assert plain == torchlint_in(project, "config", "--show").stdout
