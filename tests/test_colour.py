"""When output is coloured: the option, the environment, terminals."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.output import colour

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

ESCAPE = "\033["


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [
        ([], {}, False),
        (["--color", "auto"], {}, False),
        (["--color", "always"], {}, True),
        (["--color=always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": ""}, False),
        ([], {"CLICOLOR_FORCE": "1"}, True),
        ([], {"CLICOLOR_FORCE": "0"}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
    ],
)
def test_the_option_counts_before_the_environment(
    project: Path, torchlint_in: RunTorchlint, arguments: list[str], environment: dict[str, str], coloured: bool
) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, *arguments, env=environment)
    assert (ESCAPE in done.stdout) is coloured
    assert "LOUD is found" in done.stdout
    shown = torchlint_in(project, *arguments, "--help", env=environment)
    assert (ESCAPE in shown.stdout) is coloured
    failed = torchlint_in(project, *arguments, "nowhere.py", env=environment)
    assert (ESCAPE in failed.stderr) is coloured


def test_the_option_may_precede_the_command(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    assert ESCAPE in torchlint_in(tmp_path, "--color", "always", "explain", "--help").stdout
    assert torchlint_in(tmp_path, "--color", "rainbow").stderr.startswith("error: argument --color: invalid choice")


def test_a_report_in_a_file_is_never_coloured(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    torchlint_in(project, "-o", "report.txt", "--color", "always", env={"FORCE_COLOR": "1"})
    assert "LOUD is found" in (project / "report.txt").read_text()
    assert ESCAPE not in (project / "report.txt").read_text()


def test_a_terminal_gets_colour_unless_it_can_show_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colour.is_coloured(Terminal())
    assert not colour.is_coloured(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not colour.is_coloured(Terminal())


def shown_on_terminal(project: Path, arguments: list[str], variables: dict[str, str]) -> bytes:
    """What a run of torchlint in a folder writes to a terminal."""
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    variables = {"PYTHONPATH": path, "TERM": "xterm-256color"} | variables
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "torchlint", *arguments]
    with subprocess.Popen(
        command, cwd=project, env={**environment, **variables}, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
    ):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # Linux ends a pseudo-terminal like this
            pass
    os.close(ours)
    return shown


@pytest.mark.parametrize("arguments", [["."], ["explain", "ZZ101"], ["config", "select"], ["nowhere.py"], ["--help"]])
def test_no_color_leaves_no_escape_sequence_on_a_terminal(project: Path, arguments: list[str]) -> None:
    """Not even for bold text."""
    (project / "a.py").write_text("x = LOUD\n")
    shown = shown_on_terminal(project, arguments, {"NO_COLOR": "1"})
    assert shown
    assert re.search(rb"\033\[[\d;]*m", shown) is None  # a progress bar may move the cursor


def test_places_are_links_on_a_terminal_that_shows_colours(project: Path) -> None:
    (project / "a b.py").write_text("x = 1\ny = LOUD\n")
    shown = shown_on_terminal(project, [], {})
    assert b";" + (project / "a b.py").as_uri().encode() + b"#2\033\\" in shown
    assert b"\033]8" not in shown_on_terminal(project, [], {"NO_COLOR": "1"})
