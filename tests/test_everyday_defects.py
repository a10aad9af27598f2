"""What users stumbled over on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.settings.formats import FORMATS
from torchlint.settings.settings import all_rules

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def test_fix_only_counts_what_remains(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, RISKY\n")
    done = torchlint_in(project, "--fix-only")
    assert (done.returncode, (project / "a.py").read_text()) == (0, "x = loud, RISKY\n")
    assert (
        done.stdout == "Fixed 1 finding. 1 finding (1 info) left in 1 of 1 file; 1 fixable with --fix --unsafe-fixes.\n"
    )
    again = torchlint_in(project, "--fix-only")
    assert (again.returncode, again.stdout) == (
        0,
        "1 finding (1 info) in 1 of 1 file; 1 fixable with --fix --unsafe-fixes.\n",
    )


def test_a_name_for_standard_input_means_standard_input(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = 1\n")
    form = ("--output-format", "concise", "-q")
    done = torchlint_in(project, "--stdin-filename", "a.py", *form, stdin="x = LOUD\n")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "a.py:1:5: ZZ101 [*] loud-word: LOUD is found\n"
    done = torchlint_in(project, "--stdin-filename", "a.py", "b.py", *form, stdin="x = LOUD\n")
    assert done.stderr == "warning: b.py is ignored: --stdin-filename reads standard input\n"
    assert "ZZ101" in done.stdout


@pytest.mark.parametrize("path", ["nowhere.py", "--config=nowhere.toml"])
def test_after_an_error_nothing_is_said_of_no_files(project: Path, torchlint_in: RunTorchlint, path: str) -> None:
    done = torchlint_in(project, path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: nowhere.")
    assert torchlint_in(project, "nowhere.py", "--output-format", "json").stdout == "[]\n"


def test_a_broken_cell_does_not_keep_suppressions_from_the_others(project: Path, torchlint_in: RunTorchlint) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [text]}
        for text in ("x = (", "y = LOUD")
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (project / "a.ipynb").write_text(json.dumps(notebook, indent=1))
    done = torchlint_in(project, "--add-noqa")
    assert done.stderr.startswith("Added 1 noqa directive.")
    sources = [cell["source"] for cell in json.loads((project / "a.ipynb").read_text())["cells"]]
    assert ["".join(source) for source in sources] == ["x = (", "y = LOUD  # noqa: ZZ101"]


def test_a_plugin_without_rules_is_refused(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "torchlint.toml").write_text('plugins = ["json.tool"]\n')
    (tmp_path / "a.py").write_text("x = 1\n")
    done = torchlint_in(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: rule pack 'json.tool' contains no rules\n"


def test_names_of_files_send_no_escape_sequence_to_a_log(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a\033[31mb.py").write_text("x = LOUD\n")
    for name in FORMATS:
        shown = torchlint_in(project, "--output-format", name).stdout
        assert "ZZ101" in shown and "\033" not in shown, name


def test_the_list_of_rules_fits_the_terminal(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    for columns in (40, 80, 120):
        rows = torchlint_in(tmp_path, "rules", env={"COLUMNS": str(columns)}).stdout.splitlines()
        assert max(map(len, rows)) <= columns
        codes = [row.split()[0] for row in rows[1:] if not row.startswith(" ")]
        assert codes == [rule.code for rule in all_rules()]


def test_the_code_of_a_finding_fits_a_narrow_terminal(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("a_rather_long_name_of_something = LOUD, 'and more text to the right of it'\n")
    head, *frame, summary = torchlint_in(project, env={"COLUMNS": "40"}).stdout.splitlines()
    assert head == "a.py:1:35: ZZ101 loud-word: LOUD is found"  # the terminal wraps it, as that of any other linter
    assert "^^^^" in "".join(frame) and summary
    assert [line for line in frame if len(line) > 40] == []
