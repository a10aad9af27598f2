"""The commands other than `check`: how they are found, and what the small ones print."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import torchlint
from torchlint.commands import COMMANDS, SYNONYMS
from torchlint.commands.arguments import parser
from torchlint.rule.registry import load_rules

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("word", "command"), [("chek", "check"), ("explian", "explain"), ("Rules", "rules"), ("verison", "version")]
)
def test_a_misspelt_command_is_not_taken_for_a_path(
    tmp_path: Path, torchlint_in: RunTorchlint, word: str, command: str
) -> None:
    done = torchlint_in(tmp_path, word)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"error: `{word}` is not a command, a file or a folder; did you mean the command `{command}`?\n"
    )


def test_a_path_may_resemble_a_command(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "chek").mkdir()
    (tmp_path / "chek" / "a.py").write_text("x = 1\n")
    assert torchlint_in(tmp_path, "chek").stdout == "No findings in 1 file.\n"
    assert torchlint_in(tmp_path, "model").stderr == "error: model: no such file or folder\n"


@pytest.mark.parametrize(
    "command", [["rules"], ["explain", "TL101"], ["families"], ["config", "select"], ["version"], ["help"], ["clean"]]
)
def test_global_options_are_accepted_on_both_sides_of_a_command(
    tmp_path: Path, torchlint_in: RunTorchlint, command: list[str]
) -> None:
    plain = torchlint_in(tmp_path, *command)
    for options in (["-q"], ["-v"], ["-s"], ["--silent", "--isolated"], ["--config", "preview = true"]):
        for arguments in ([*options, *command], [*command, *options]):
            done = torchlint_in(tmp_path, *arguments)
            assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert torchlint_in(tmp_path, "--config=preview = true", *command).stdout == plain.stdout


def test_global_options_count_in_each_command(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "torchlint.toml").write_text("selekt = []\n")
    assert torchlint_in(tmp_path, "rules").returncode == 2
    assert torchlint_in(tmp_path, "--isolated", "rules").returncode == 0
    (tmp_path / "own.toml").write_text("preview = true\n")
    for given, shown in (("own.toml", "own.toml:"), ("fix = true", "    fix = true")):
        done = torchlint_in(tmp_path, "--config", given, "config", "--show", *(["--isolated"] if "=" in given else []))
        assert shown in done.stdout.splitlines()
    assert torchlint_in(tmp_path, "--config", "own.toml", "config", "--check").stdout.endswith("own.toml: ok\n")
    done = torchlint_in(tmp_path, "-s", "rules")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("arguments", [["--no-cache", "check", "t.py"], ["--fix", "rules"], ["--select=A", "linter"]])
def test_a_command_behind_its_options_is_named(
    tmp_path: Path, torchlint_in: RunTorchlint, arguments: list[str]
) -> None:
    (tmp_path / "t.py").write_text("x = 1\n")
    done = torchlint_in(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {arguments[1]}: no such file or folder; give the command before its options: "
        f"`torchlint {arguments[1]} ...`\n"
    )
    (tmp_path / arguments[1]).mkdir()
    assert "before its options" not in torchlint_in(tmp_path, *arguments).stderr
    assert torchlint_in(tmp_path, "--", "config").stderr == "error: config: no such file or folder\n"


def test_what_follows_two_dashes_is_a_path(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    for name in ("-dash.py", "a.py"):
        (tmp_path / name).write_text("x = 1\n")
    for arguments in (["--", "-dash.py"], ["check", "--", "-dash.py"], ["--no-cache", "--", "-dash.py"]):
        done = torchlint_in(tmp_path, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "No findings in 1 file.\n", "")
    assert torchlint_in(tmp_path, "a.py", "-n", "--", "-dash.py").stdout == "No findings in 2 files.\n"
    assert torchlint_in(tmp_path, "clean", "--", "-x").stderr == "error: -x: no such folder\n"


def test_names_of_ruffs_commands_are_understood(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    assert torchlint_in(tmp_path, "rule", "TL101").stdout == torchlint_in(tmp_path, "explain", "TL101").stdout
    assert torchlint_in(tmp_path, "linter").stdout == torchlint_in(tmp_path, "families").stdout


def test_the_version(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    line = f"torchlint {torchlint.__version__}\n"
    for arguments in (["version"], ["--version"], ["-V"], ["check", "-V"]):
        assert torchlint_in(tmp_path, *arguments).stdout == line
    written = torchlint_in(tmp_path, "version", "--output-format", "json").stdout
    assert json.loads(written) == {"version": torchlint.__version__}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_prints_what_the_option_of_the_command_prints(
    tmp_path: Path, torchlint_in: RunTorchlint, command: str
) -> None:
    shown = torchlint_in(tmp_path, "help", command)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == torchlint_in(tmp_path, command, "--help").stdout


def test_help_without_a_command_is_that_of_torchlint(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    shown = torchlint_in(tmp_path, "help").stdout
    assert shown == torchlint_in(tmp_path, "--help").stdout
    assert all(command in shown for command in COMMANDS)
    done = torchlint_in(tmp_path, "help", "chekc")
    assert (done.returncode, done.stderr) == (2, "error: unknown command `chekc`; did you mean `check`?\n")


def test_families_are_listed_with_the_prefix_that_selects_them(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    listed = json.loads(torchlint_in(tmp_path, "families", "--output-format", "json").stdout)
    by_name = {family["name"]: family for family in listed}
    assert by_name["data_loading"]["prefix"] == "TL1"
    assert by_name["data_loading"]["summary"] == "Rules about datasets and data loaders."
    own = [rule for rule in load_rules() if rule.family() == "data_loading"]
    assert by_name["data_loading"]["rules"] == len(own)
    assert all(rule.code.startswith("TL1") for rule in own)
    head, *rows = torchlint_in(tmp_path, "families").stdout.splitlines()
    assert head.split() == ["prefix", "family", "rules", "about"]
    assert [row.split()[1] for row in rows] == list(by_name)


def test_several_rules_are_explained_at_once(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    both = torchlint_in(tmp_path, "explain", "TL101", "missing-eval", "tl101").stdout
    titles = [line for line in both.splitlines() if line.startswith("# ")]
    assert titles == ["# TL101 single-process-dataloader", "# TL401 missing-eval"]
    done = torchlint_in(tmp_path, "explain", "TL101", "TL998")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown rule `TL998`; did you mean ")


def test_a_prefix_explains_all_rules_below_it(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(tmp_path, "explain", "tl40", "TL401")
    codes = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("# ")]
    assert len(codes) > 2
    assert codes == sorted(set(codes))
    assert all(code.startswith("TL40") for code in codes)
    for wrong in ("T", "TL99", "4", ""):
        done = torchlint_in(tmp_path, "explain", wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: unknown rule `{wrong}`; ")


def test_pages_are_given_to_programs(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    listed = json.loads(torchlint_in(tmp_path, "rules", "--output-format", "json").stdout)
    for command in ("explain", "rule"):
        shown = json.loads(torchlint_in(tmp_path, command, "--output-format", "json", "TL1", "missing-eval").stdout)
        assert [rule.pop("explanation").splitlines()[0] for rule in shown] == [
            f"# {rule['code']} {rule['name']}" for rule in shown
        ]
        assert shown == [rule for rule in listed if rule["code"].startswith("TL1") or rule["name"] == "missing-eval"]
    assert len(json.loads(torchlint_in(tmp_path, "explain", "--all", "--output-format=json").stdout)) == len(listed)


def test_the_comparison_with_ruff_names_every_option() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "peers.md").read_text(encoding="utf-8")
    section = page.partition("## Options of ruff and torchlint\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row[:1] == "|"]
    assert all(len(row) == 3 and all(row) for row in rows)  # no empty cell
    named = {word for row in rows for word in re.findall(r"`(-?-?[a-z-]+)", row[1])}
    options = {action.option_strings[-1] for action in parser()._actions if action.option_strings}
    ours = {option.replace("--no-", "--") if option != "--no-cache" else option for option in options}
    unusual = {"--help", "--extend-ignore", "--version"}
    assert {*ours, *COMMANDS, *SYNONYMS} - unusual <= named
    assert {word for word in named if word.startswith("--")} <= {*ours, *unusual}
