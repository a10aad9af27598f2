"""``--output-file``: what is written to it, and when it is left alone."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import RunTorchlint

from torchlint.settings import formats


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
        assert reader.communicate(timeout=240)[0] == "a.py:1: [ZZ101] LOUD is found\n"
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
