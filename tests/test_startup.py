"""What the commands import: those that read no Python file start without what reading one takes."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchlint
from torchlint.cli import main

#: What takes long to import, or may not be installed.
HEAVY = {"libcst", "lsprotocol", "numpy", "pathspec", "pygls", "rich", "shtab", "torch", "watchfiles"}

PROGRAM = """
import json, sys
from torchlint.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as done:  # how argparse ends after --help and --version
    status = done.code or 0
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(status)
"""


def imported(folder: Path, *arguments: str) -> tuple[set[str], str]:
    """The packages that a command imports, and what it prints."""
    path = str(Path(torchlint.__file__).resolve().parent.parent)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{PROGRAM}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr)), done.stdout


def test_the_version_needs_nothing_else(tmp_path: Path) -> None:
    modules, output = imported(tmp_path, "--version")
    assert not modules & HEAVY
    assert output == f"torchlint {torchlint.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["check", "--help"],
        ["rules"],
        ["rules", "--output-format", "json"],
        ["explain", "TL101"],
        ["config"],
        ["config", "select"],
        ["config", "--show"],
        ["config", "--output-format", "json-schema"],
        ["generate-shell-completion", "bash"],
        ["server", "--help"],
    ],
    ids=" ".join,
)
def test_commands_that_read_no_python_start_quickly(tmp_path: Path, arguments: list[str]) -> None:
    modules, output = imported(tmp_path, *arguments)
    assert not modules & HEAVY
    assert output


def test_a_run_in_which_no_file_can_matter_parses_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('no word of a rule')\n")
    modules, output = imported(tmp_path, ".")
    assert not modules & HEAVY
    assert output == "No findings in 1 file.\n"


def test_a_run_that_parses_imports_the_parser_but_nothing_of_torch(tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    (tmp_path / "a.py").write_text(
        "from torch.utils.data import DataLoader\nloader = DataLoader(data, num_workers=4)\n"
    )
    modules, _ = imported(tmp_path, "--exit-zero", ".")
    assert "libcst" in modules
    assert not modules & {"torch", "pygls", "watchfiles", "shtab"}


def test_a_run_in_which_nothing_has_changed_parses_neither_files_nor_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    (tmp_path / "a.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    os.utime(tmp_path / "a.py", (1, 1))  # else the cache is written again: its time is too young to be trusted
    cold, first = imported(tmp_path, "--exit-zero", ".")
    warm, second = imported(tmp_path, "--exit-zero", ".")
    assert {"libcst", "packaging"} <= cold
    assert warm & {*HEAVY, "packaging", "configparser", "shutil", "tempfile"} == set()
    assert "TL303" in first and first == second


def test_a_process_that_ends_after_one_command_collects_no_garbage(tmp_path: Path) -> None:
    path = str(Path(torchlint.__file__).resolve().parent.parent)
    program = "import gc; from torchlint.cli import main; main(); print(gc.isenabled(), gc.get_freeze_count() > 1000)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{program}", "families"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False True\n")
    enabled = gc.isenabled()
    main(["families"])
    assert gc.isenabled() == enabled
