"""A folder that is checked must not run code of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torchlint_processes import can_fork, environment, forks

from torchlint.output.text import write_diff
from torchlint.settings.formats import FORMATS

TESTS = Path(__file__).resolve().parent
SHADOWED = (
    "__future__",
    "typing",
    "argparse",
    "difflib",
    "json",
    "rich",
    "libcst",
    "tomli",
    "tomllib",
    "pathspec",
    "pygls",
    "re",
    "ast",
)


#: Seconds within which a run ends, whatever is in the folder.
LIMIT = 60


def variables_of(more: dict[str, str]) -> dict[str, str]:
    """The environment of a run, in which plugins are not allowed unless it is said."""
    kept = environment(**more)
    if "TORCHLINT_ALLOW_PLUGINS" not in more:
        kept.pop("TORCHLINT_ALLOW_PLUGINS", None)
    return kept


def run_in(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """``python -m torchlint`` with `folder` as the current folder."""
    kept = variables_of(variables)
    if can_fork(kept):
        return forks().run("torchlint", *arguments, cwd=folder, env=kept, stdin=b"", timeout=LIMIT)
    return start_in(folder, *arguments, **variables)


def start_in(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """The same in a process that has imported nothing, with `folder` first on the import path."""
    kept = variables_of(variables)
    kept.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, "-m", "torchlint", *arguments],
        cwd=folder,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("server",), ("check", "a.py", "b.py"), ("rules",), ("explain", "TL101")])
def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import torch\nx = torch.zeros(3).cuda()\n")
    outcome = start_in(tmp_path, *arguments)
    assert not (tmp_path / "ran").exists(), outcome.stderr.decode()
    assert b"Traceback" not in outcome.stderr


def test_plugins_of_a_settings_file_need_leave(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "torchlint.toml").write_text('plugins = ["demo_pack"]\n')
    refused = run_in(tmp_path, "check", "a.py")
    assert refused.returncode == 2
    assert refused.stderr.decode().splitlines() == [
        "error: torchlint.toml: `plugins` ('demo_pack') are not loaded, because importing them runs their code; "
        "to allow it, pass --allow-plugins or set TORCHLINT_ALLOW_PLUGINS=1"
    ]
    assert run_in(tmp_path, "rules").returncode == 2
    assert run_in(tmp_path, "check", "--config", "torchlint.toml", "a.py").returncode == 2
    assert run_in(tmp_path, "check", "--allow-plugins", "a.py").returncode == 0
    assert run_in(tmp_path, "check", "a.py", TORCHLINT_ALLOW_PLUGINS="1").returncode == 0


def test_a_folder_cannot_bring_a_plugin_along(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "torchlint.toml").write_text('plugins = ["evil"]\n')
    outcome = start_in(tmp_path, "rules", TORCHLINT_ALLOW_PLUGINS="1")
    assert b"rule pack 'evil' cannot be imported" in outcome.stderr
    assert not (tmp_path / "ran").exists()


def test_an_entry_of_the_import_path_stays(tmp_path: Path) -> None:
    """Also where it is the current folder, which `python -m` puts first."""
    (tmp_path / "own_pack.py").write_text((TESTS / "demo_pack.py").read_text())
    (tmp_path / "torchlint.toml").write_text('plugins = ["own_pack"]\n')
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", str(TESTS.parent))])
    outcome = start_in(tmp_path, "rules", TORCHLINT_ALLOW_PLUGINS="1", PYTHONPATH=places)
    assert outcome.returncode == 0, outcome.stderr.decode()


def test_plugins_of_the_command_line_need_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    outcome = run_in(tmp_path, "check", "--config", 'plugins = ["demo_pack"]', "a.py")
    assert outcome.returncode == 0, outcome.stderr.decode()


@pytest.mark.parametrize("place", ["../home/.profile", "{home}/.profile", "inner/../../home/.profile"])
def test_a_settings_file_names_no_baseline_outside_of_its_repository(tmp_path: Path, place: str) -> None:
    repository, home = tmp_path / "repository", tmp_path / "home"
    repository.mkdir()
    home.mkdir()
    (repository / "a.py").write_text("import torch\n\nfor i in range(3):\n    print(torch.zeros(i).cuda())\n")
    (repository / "torchlint.toml").write_text(f'baseline = "{place.format(home=home)}"\n')
    outcome = run_in(repository, "check", "--update-baseline", ".")
    assert outcome.returncode == 2
    assert outcome.stderr.decode().startswith("error: torchlint.toml: `baseline` leads out of ")
    assert list(home.iterdir()) == []
    given = run_in(repository, "check", "--update-baseline", "--baseline", "../home/known.json", ".")
    assert given.returncode == 0, given.stderr.decode()
    assert [path.name for path in home.iterdir()] == ["known.json"]


def test_a_baseline_may_be_anywhere_in_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_text("import torch\n\nfor i in range(3):\n    print(torch.zeros(i).cuda())\n")
    (tmp_path / "inner" / "torchlint.toml").write_text('baseline = "../known.json"\n')
    outcome = run_in(tmp_path / "inner", "check", "--update-baseline", ".")
    assert outcome.returncode == 0, outcome.stderr.decode()
    assert (tmp_path / "known.json").is_file()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", "x = 1  # noqa: TL101" + " " * 60_000 + "!\n"),
        ("a.py", "x = 1  # noqa: TL101" + " " * 30_000 + ":" + "\t" * 30_000 + "!\n"),
        ("requirements.txt", "torch" + " " * 60_000 + "!\n"),
        ("requirements.txt", "torch" + " " * 30_000 + "[a]" + " " * 30_000 + "!\n"),
        ("requirements.txt", "torch>=" + "9" * 60_000 + "\n"),
        (
            "a.ipynb",
            '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source": "'
            + r"\r\n" * 5_000
            + r'!ls\r\nimport torch\r\n"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
        ),
    ],
)
def test_long_rows_of_blanks_take_no_time(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / "b.py").write_text("x = 1  # noqa: TL101\n")
    (tmp_path / name).write_text(content)
    outcome = run_in(tmp_path, "check", "--select", "ALL", ".")  # within the limit of `run_in`
    assert b"Traceback" not in outcome.stderr
    assert outcome.returncode in (0, 1)


@pytest.mark.skipif(os.name == "nt", reason="such names are not admitted")
@pytest.mark.parametrize("output_format", FORMATS)
def test_no_format_passes_on_what_acts_upon_a_terminal_or_a_workflow(tmp_path: Path, output_format: str) -> None:
    name = "a\x1b[31m\n::error::x.py"
    text = """import torch
for i in range(3):
    y = "\x1b[31m\x07 ::set-output name=x::y"; print(torch.zeros(i).cuda(), "\x1b]0;t\x07")
"""
    (tmp_path / name).write_text(text)
    outcome = run_in(tmp_path, "check", "--output-format", output_format, ".")
    assert outcome.returncode == 1
    for stream in (outcome.stdout, outcome.stderr):
        assert b"\x1b" not in stream
        assert b"\x07" not in stream
        assert not any(line.startswith((b"::error::", b"::set-output")) for line in stream.splitlines())


def test_a_diff_is_exact_for_programs_and_harmless_on_a_terminal() -> None:
    diff = "--- a.py\n+++ a.py\n-x = '\x1b[31m'\r\n+y = '\x07'\n"
    piped = io.StringIO(newline="")
    write_diff(diff, piped)
    assert piped.getvalue() == diff

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal(newline="")
    write_diff(diff, shown)
    assert shown.getvalue() == "--- a.py\n+++ a.py\n-x = '␛[31m'\r\n+y = '␇'\n"
