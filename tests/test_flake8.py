"""The flake8 plugin, asked through the real flake8: the findings are torchlint's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rule_cases import FIXTURES, read_cases
from torchlint_processes import run_module

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def flake8(folder: Path, *arguments: str, stdin: bytes | None = None) -> tuple[list[str], str, int]:
    """The lines that flake8 prints of the codes TL and ZZ, what it says on standard error, and its exit status."""
    done = run_module("flake8", folder, "--isolated", "--select", "TL,ZZ,E9", *arguments, stdin=stdin or b"")
    return done.stdout.decode().splitlines(), done.stderr.decode(), done.returncode


def torchlint_lines(done: subprocess.CompletedProcess[str], folder: Path) -> list[str]:
    """The findings of torchlint's JSON report, as flake8 prints them."""
    return sorted(
        f"./{Path(item['filename']).relative_to(folder).as_posix()}:{item['location']['row']}:"
        f"{item['location']['column']}: {item['code']} {item['message']}"
        for item in json.loads(done.stdout)
    )


def test_flake8_lists_the_plugin() -> None:
    done = subprocess.run([sys.executable, "-m", "flake8", "--version"], capture_output=True, text=True, check=True)
    assert "torchlint: " in " ".join(done.stdout.split())


def test_the_findings_are_those_of_torchlint(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    for folder in sorted(FIXTURES.iterdir())[::3]:  # the plugin does not know one rule from another
        module = folder.name.replace("-", "_")
        for name in ("before.py", "after.py"):
            if (folder / name).is_file():
                (tmp_path / f"{module}_{name}").write_bytes((folder / name).read_bytes())
        firing = [case.text for case in read_cases(folder.name) if case.fires]
        (tmp_path / f"{module}_cases.py").write_text("\n".join(firing), encoding="utf-8")
    (tmp_path / "torchlint.toml").write_text('extend-select = ["ALL"]\nignore = ["TL811"]\n')
    expected = torchlint_lines(torchlint_in(tmp_path, "--output-format", "json"), tmp_path)
    assert len(expected) > 100
    assert sorted(flake8(tmp_path, ".")[0]) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"x = LOUD\r\n\r\ny = '\xe6\x97\xa5', LOUD\r\n",
        b"\xef\xbb\xbfx = LOUD\n",
        b"# coding: latin-1\nx = '\xe9', LOUD\n",
        b"x = 1\n\x0c\ny = '\x0b', LOUD\n",
        b"x = '''\n\n''', LOUD",
        b"if x:\n\ty = LOUD\n",
        b"",
    ],
)
def test_rows_and_columns_whatever_the_file_is_made_of(
    project: Path, torchlint_in: RunTorchlint, content: bytes
) -> None:
    (project / "a.py").write_bytes(content)
    expected = torchlint_lines(torchlint_in(project, "--output-format", "json"), project)
    assert bool(expected) is bool(content)
    assert flake8(project, ".")[0] == expected


def test_the_settings_are_torchlints_own(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD, OPTED\n")
    (project / "sub").mkdir()
    (project / "sub" / "torchlint.toml").write_text('extend = "../torchlint.toml"\nignore = ["ZZ101"]\n')
    (project / "sub" / "b.py").write_text("x = LOUD, OPTED\n")
    (project / "old").mkdir()
    (project / "old" / "c.py").write_text("x = LOUD\n")
    with (project / "torchlint.toml").open("a") as settings:
        settings.write('extend-exclude = ["old"]\n')
    lines, _, status = flake8(project, ".")
    assert sorted(line.split(" ")[:2] for line in lines) == [
        ["./a.py:1:11:", "ZZ201"],
        ["./a.py:1:5:", "ZZ101"],
        ["./sub/b.py:1:11:", "ZZ201"],
    ]
    assert status == 1


def test_flake8_selects_on_top(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD, OPTED\n")
    assert flake8(project, "--extend-ignore", "ZZ101", ".")[0] == ["./a.py:1:11: ZZ201 OPTED is found"]
    assert flake8(project, "--per-file-ignores", "a.py:ZZ", ".")[0] == []


def test_noqa_counts_on_every_line_of_a_statement(tmp_path: Path) -> None:
    opening = ["import torch", "from torch.utils.data import DataLoader", "", "from samples import data"]
    rows = ["loader = DataLoader(", "    data,", ")", "for batch in loader:", "    batch.cuda().sum().backward()", ""]
    for row in range(3):
        for number, comment in enumerate(("# noqa", "# noqa: TL101,TL102", "# noqa:E501,TL101,TL102")):
            commented = [line + f"  {comment}" * (index == row) for index, line in enumerate(rows)]
            (tmp_path / f"a{row}{number}.py").write_text("\n".join(opening + commented))
    assert flake8(tmp_path, ".")[0] == []
    shown = flake8(tmp_path, "--disable-noqa", ".")[0]
    assert len([line for line in shown if "TL101" in line]) == 9


def test_unused_suppressions_are_reported(project: Path) -> None:
    (project / "a.py").write_text("x = 1  # noqa: ZZ101\n")
    (project / "torchlint.toml").write_text('plugins = ["demo_pack"]\nselect = ["ZZ1", "TL001"]\n')
    assert [line.split(" ")[:2] for line in flake8(project, ".")[0]] == [["./a.py:1:8:", "TL001"]]


def test_standard_input_has_the_name_it_is_given(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "torchlint.toml").write_text('extend = "../torchlint.toml"\nignore = ["ZZ201"]\n')
    given = b"x = LOUD, OPTED\n"
    assert flake8(project, "-", stdin=given)[0] == [
        "stdin:1:5: ZZ101 LOUD is found",
        "stdin:1:11: ZZ201 OPTED is found",
    ]
    named = flake8(project, "--stdin-display-name", "sub/a.py", "-", stdin=given)[0]
    assert named == ["sub/a.py:1:5: ZZ101 LOUD is found"]


def test_a_rule_that_crashes_is_told_and_costs_nothing_else(project: Path) -> None:
    (project / "a.py").write_text("x = CRASH, LOUD\n")
    (project / "b.py").write_text("x = LOUD\n")
    lines, _, status = flake8(project, ".")
    assert status == 1
    assert [line.split(": ")[0] for line in lines] == ["./a.py:1:1", "./a.py:1:12", "./b.py:1:5"]
    assert "TL000 ./a.py: ZZ103 crashed: KeyError: 'a bug'" in lines[0]


def test_a_file_that_is_not_python_is_left_to_flake8(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD (\n")
    (project / "b.py").write_text("x = LOUD\n")
    lines, errors, _ = flake8(project, ".")
    assert {line.split(" ")[1] for line in lines if line.startswith("./a.py")} == {"E999"}
    assert [line for line in lines if line.startswith("./b.py")] == ["./b.py:1:5: ZZ101 LOUD is found"]
    assert "Traceback" not in errors


def test_broken_settings_are_said_in_one_line(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    (project / "torchlint.toml").write_text("selec = []\n")
    lines, errors, status = flake8(project, "a.py")
    assert status == 1
    assert lines[-1] == "torchlint: torchlint.toml:1:1: unknown setting `selec`; did you mean `select`?"
    assert "Traceback" not in errors


def test_the_baseline_counts(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with (project / "torchlint.toml").open("a") as settings:
        settings.write('baseline = "known.json"\n')
    assert torchlint_in(project, "--update-baseline").returncode == 0
    assert flake8(project, ".")[0] == []
    (project / "a.py").write_text("\n\nx = LOUD\ny = LOUD\n")
    assert flake8(project, ".")[0] == ["./a.py:4:5: ZZ101 LOUD is found"]
