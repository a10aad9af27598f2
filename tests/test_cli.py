"""The command line, run as a process: what it prints, where, and the status it exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_clean_run_exits_with_0(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = 1\n")
    for arguments in ([], ["."], ["a.py"], ["check"], ["check", "."], ["--quiet", "check", "."]):
        done = torchlint_in(project, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    assert torchlint_in(project).stdout == "No findings in 1 file.\n"
    assert torchlint_in(project, "-q").stdout == ""


def test_findings_are_shown_and_exit_with_1(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = 1\ny = LOUD\n")
    done = torchlint_in(project)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "a.py:2:5: ZZ101 loud-word: LOUD is found",
        "  |",
        "1 | x = 1",
        "2 | y = LOUD",
        "  |     ^^^^ here",
        "  |",
        "  = note: the word LOUD",
        "  = help: write it otherwise: LOUD",
        "",
        "1 finding in 1 of 1 file; 1 fixable with --fix.",
    ]
    assert torchlint_in(project, "--exit-zero").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "error: nowhere: no such file or folder"),
        (["--selct", "ZZ"], "error: unknown option `--selct`; did you mean `--select`?"),
        (["--select", "ZZ998"], "error: command line: unknown rule 'ZZ998' in `select`; did you mean"),
        (["--select"], "error: argument --select: expected one argument"),
        (["--output-format", "jsom"], "error: command line: unknown `output-format` 'jsom'; did you mean `json`?"),
        (["--config", "nowhere.toml"], "error: nowhere.toml: cannot be read: No such file or directory"),
        (["--config", "fix = 1"], "error: --config 'fix = 1': `fix` must be true or false, not 1"),
        (["--config", "fix = "], "error: --config 'fix = ': not valid TOML"),
        (["--per-file-ignores", "a.py"], "error: --per-file-ignores takes PATTERN:RULES, not `a.py`"),
        (["-", "a.py"], "error: `-` (standard input) cannot be checked together with other paths"),
        (["explain", "loud-wrd"], "error: unknown rule `loud-wrd`; did you mean `loud-word`?"),
        (["explain"], "error: no rule is given: `torchlint explain TL101`"),
        (["rules", "--output-format", "xml"], "error: argument --output-format: invalid choice"),
    ],
)
def test_faults_are_one_line_and_exit_with_2(
    project: Path, torchlint_in: RunTorchlint, arguments: list[str], message: str
) -> None:
    done = torchlint_in(project, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_paths_may_stand_on_both_sides_of_an_option(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    (project / "b.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "a.py", "--output-format", "concise", "b.py", "-q")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["a.py", "b.py"]


def test_a_broken_setting_names_file_and_key(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "torchlint.toml").write_text("selec = []\n")
    done = torchlint_in(project)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: torchlint.toml:1:1: unknown setting `selec`; did you mean `select`?",
        "  |",
        "1 | selec = []",
        "  | ^^^^^",
    ]


def test_bad_files_do_not_stop_the_run(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "binary.py").write_bytes(b"\0\1\2")
    (project / "deep.py").write_text("LOUD = " + "[" * 20_000)
    (project / "empty.py").write_text("")
    (project / "good.py").write_text("x = LOUD\n")
    (project / "latin.py").write_bytes(b"x = '\xe9'\n")
    (project / "python2.py").write_text('print "LOUD"\n')
    done = torchlint_in(project, "--output-format", "concise", ".", "nowhere.py")
    assert done.returncode == 2
    assert done.stderr == "error: nowhere.py: no such file or folder\n"
    assert [[line.split(":")[0], line.split(": ")[1]] for line in done.stdout.splitlines()[:-1]] == [
        ["binary.py", "TL002 invalid-syntax"],
        ["deep.py", "TL002 invalid-syntax"],
        ["good.py", "ZZ101 [*] loud-word"],
        ["latin.py", "TL002 invalid-syntax"],
        ["python2.py", "TL002 invalid-syntax"],
    ]


def test_a_named_file_is_parsed_whatever_it_contains(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = (\n")
    assert torchlint_in(project, "a.py").returncode == 1
    assert torchlint_in(project, ".").returncode == 0


def test_a_folder_reports_a_python_2_file_that_imports_torch(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text('import torch\nprint "epoch"\n')
    (project / "third_party").mkdir()
    (project / "third_party" / "b.py").write_text('import torch\nprint "epoch"\n')
    for named in (".", "a.py"):
        done = torchlint_in(project, "--output-format", "concise", "-q", named)
        assert (done.returncode, done.stdout.split(":")[:2]) == (1, ["a.py", "2"])


def test_a_crashing_rule_is_reported_and_exits_with_2(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("CRASH = LOUD\n")
    done = torchlint_in(project, "--output-format", "concise")
    assert done.returncode == 2
    assert done.stderr.startswith("error: a.py: ZZ103 crashed: KeyError: 'a bug'")
    assert done.stderr.count("\n") == 1
    assert "ZZ101" in done.stdout


def test_selection(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, RISKY, OPTED\n")

    def codes(*arguments: str) -> list[str]:
        done = torchlint_in(project, "--output-format", "json", *arguments)
        return [item["code"] for item in json.loads(done.stdout)]

    assert codes() == ["ZZ101", "ZZ102", "ZZ201"]
    assert codes("--select", "ZZ101,ZZ201") == ["ZZ101", "ZZ201"]
    assert codes("--select", "ZZ1", "--ignore", "loud-word") == ["ZZ102"]
    assert codes("--ignore", "ZZ101", "--extend-ignore", "ZZ102") == ["ZZ201"]
    assert codes("--select", "ZZ101", "--extend-select", "ZZ102") == ["ZZ101", "ZZ102"]
    assert codes("--per-file-ignores", "a.py:ZZ101,*.py:ZZ102") == ["ZZ201"]
    assert codes("--config", 'select = ["ZZ102"]') == ["ZZ102"]
    assert codes("--isolated") == []


def test_fix_writes_and_reports_what_is_left(project: Path, torchlint_in: RunTorchlint) -> None:
    path = project / "a.py"
    path.write_bytes(b"x = LOUD\r\ny = RISKY\r\n")
    diff = torchlint_in(project, "--diff")
    assert (diff.returncode, path.read_bytes()) == (1, b"x = LOUD\r\ny = RISKY\r\n")
    assert "-x = LOUD" in diff.stdout and "+x = loud" in diff.stdout
    assert diff.stderr == "Would fix 1 finding.\n"
    done = torchlint_in(project, "--fix", "--output-format", "concise", "--show-fixes", "--fail-on", "info")
    assert done.returncode == 1
    assert path.read_bytes() == b"x = loud\r\ny = RISKY\r\n"
    assert done.stdout.splitlines() == [
        "a.py:2:5: ZZ102 [info] risky-word: RISKY is found",
        "a.py:",
        "    ZZ101: write it otherwise: LOUD",
        "Fixed 1 finding. 1 finding (1 info) left in 1 of 1 file; 1 fixable with --fix --unsafe-fixes.",
    ]
    assert torchlint_in(project, "--diff").returncode == 0
    done = torchlint_in(project, "--fix", "--unsafe-fixes", "--exit-non-zero-on-fix")
    assert (done.returncode, path.read_bytes()) == (1, b"x = loud\r\ny = risky\r\n")
    assert done.stdout == "Fixed 1 finding. No findings left in 1 file.\n"


def test_fix_only_says_nothing_about_what_is_left(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, RISKY\n")
    done = torchlint_in(project, "--fix-only")
    assert (done.returncode, (project / "a.py").read_text()) == (0, "x = loud, RISKY\n")
    assert "ZZ102" not in done.stdout


def test_standard_input(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, "--output-format", "concise", "--stdin-filename", "sub/a.py", "-", stdin="x = LOUD\n")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{os.path.join('sub', 'a.py')}:1:5: ZZ101 ")
    done = torchlint_in(project, "-", "--fix", "--output-format", "concise", stdin="é = LOUD, RISKY")
    assert (done.returncode, done.stdout) == (0, "é = loud, RISKY")  # what is left is of severity info
    assert done.stderr.startswith("-:1:11: ZZ102 ")
    done = torchlint_in(project, "-", "--fix", "-q", stdin="x = (")
    assert (done.returncode, done.stdout) == (1, "x = (")
    assert "TL002" in done.stderr
    done = torchlint_in(project, "-", "--diff", "-q", stdin="x = LOUD\n")
    assert (done.returncode, done.stderr) == (1, "")
    assert "+x = loud\n" in done.stdout
    excluded = ["--stdin-filename", "venv/a.py", "--force-exclude", "-"]
    assert torchlint_in(project, *excluded, stdin="x = LOUD\n").returncode == 0
    assert torchlint_in(project, "--fix", *excluded, stdin="x = LOUD\n").stdout == "x = LOUD\n"


def test_json_is_the_same_on_every_run(project: Path, torchlint_in: RunTorchlint) -> None:
    for index in range(80):
        (project / f"{index:02}.py").write_text("x = LOUD, RISKY\n")
    seeds = [{"PYTHONHASHSEED": str(seed)} for seed in range(3)]
    runs = {torchlint_in(project, "--output-format", "json", env=seed).stdout for seed in seeds}
    assert len(runs) == 1
    items = json.loads(runs.pop())
    assert [os.path.basename(item["filename"]) for item in items[::2]] == [f"{index:02}.py" for index in range(80)]
    assert all(os.path.isabs(item["filename"]) for item in items)


def test_statistics(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, LOUD, OPTED\n")
    assert torchlint_in(project, "--statistics", "-q").stdout.splitlines() == [
        "2  ZZ101  [*]  loud-word",
        "1  ZZ201  [ ]  opted-word",
    ]
    counted = json.loads(torchlint_in(project, "--statistics", "--output-format", "json").stdout)
    assert [(entry["code"], entry["count"]) for entry in counted] == [("ZZ101", 2), ("ZZ201", 1)]


def test_noqa_can_be_ignored(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD  # noqa\n")
    assert torchlint_in(project).returncode == 0
    assert torchlint_in(project, "--ignore-noqa").returncode == 1


def test_rules_and_their_pages(project: Path, torchlint_in: RunTorchlint) -> None:
    table = torchlint_in(project, "rules")
    assert table.returncode == 0
    codes = [line.split()[0] for line in table.stdout.splitlines()[1:]]
    assert codes[:2] == ["TL001", "TL002"] and "ZZ101" in codes
    listed = json.loads(torchlint_in(project, "rules", "--output-format", "json").stdout)
    assert [entry["code"] for entry in listed] == codes
    (safe,) = [entry for entry in listed if entry["code"] == "TL001"]
    assert (safe["name"], safe["fix"], safe["default"]) == ("unused-suppression", "safe", "on")
    for word in ("ZZ101", "zz101", "loud-word"):
        page = torchlint_in(project, "explain", word)
        assert page.returncode == 0
        assert page.stdout.startswith("# ZZ101 loud-word\n\nA loud word.\n")
    pages = torchlint_in(project, "explain", "--all").stdout
    assert [line.split()[1] for line in pages.splitlines() if line.startswith("# ")] == codes


def test_no_files_is_worth_a_warning(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project)
    assert (done.returncode, done.stderr) == (0, "warning: no Python files or notebooks found under the given paths\n")


def test_a_reader_that_leaves_early_is_no_fault(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n" * 5000)
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    command = [sys.executable, "-m", "torchlint", "--output-format", "concise"]
    with subprocess.Popen(
        command, cwd=project, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"a.py:1:5: ZZ101")
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_terminal_without_unicode_is_no_fault(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, '→'\n", encoding="utf-8")
    done = torchlint_in(project, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (1, "")
    assert "x = LOUD, '\\u2192'" in done.stdout
