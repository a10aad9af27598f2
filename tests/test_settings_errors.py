"""What is said of settings that are not valid: all of it, with its place in the file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.settings.files import is_excluded
from torchlint.settings.layers import SettingsError
from torchlint.settings.resolver import Resolver

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

WRONG = """\
[tool.torchlint]
selec = ["TL1"]
fix = 1  # not true
output-format = "jsom"

[tool.torchlint.per-file-ignores]
"tests/*" = "TL1"
"""

UNKNOWN = """\
select = ["TL101", "TL998"]
ignore = [
    "missing-evil",
]
per-file-ignores = { "a.py" = ["TL101", "QQ"] }
[rules.static-padding]
shor = 1
short = "x"
[rules.static-paddin]
"""


def errors_of(text: str, folder: Path, name: str = "torchlint.toml") -> list[SettingsError]:
    """What is wrong with a settings file."""
    (folder / name).write_text(text)
    with pytest.raises(SettingsError) as raised:
        Resolver().for_folder(str(folder))
    return [raised.value, *raised.value.others]


def test_all_keys_and_types_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    errors = errors_of(WRONG, tmp_path, "pyproject.toml")
    assert [str(error) for error in errors] == [
        "pyproject.toml:2:1: unknown setting `selec`; did you mean `select`?",
        "pyproject.toml:3:7: `fix` must be true or false, not 1",
        "pyproject.toml:4:17: unknown `output-format` 'jsom'; did you mean `json`?",
        "pyproject.toml:6:17: `per-file-ignores` must be a table from file patterns to lists of rule codes, "
        "not {'tests/*': 'TL1'}",
    ]
    assert errors[1].excerpt == "  |\n3 | fix = 1  # not true\n  |       ^"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('exclude = ["a", "["]', "1:17", "`[` is not closed; `[[]` matches the character"),
        ('extend-exclude = ["x[!]"]', "1:19", "`[` is not closed; `[[]` matches the character"),
        ('exclude = ["{t,u.py"]', "1:12", "`{` is not closed; `[{]` matches the character"),
        ('exclude = ["t}.py"]', "1:12", "`}` is not opened; `[}]` matches the character"),
        ('exclude = ["[z-a]"]', "1:12", "`z-a` is not a range of characters"),
        (f'exclude = ["{"{" * 99}{"}" * 99}"]', "1:12", "too many nested braces"),
        ('[per-file-ignores]\n"{t" = []', "2:1", "`{` is not closed; `[{]` matches the character"),
        ('[per-file-target-torch]\n"{t" = "2.4"', "2:1", "`{` is not closed; `[{]` matches the character"),
    ],
)
def test_patterns_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, place: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (error,) = errors_of(text, tmp_path)
    assert str(error).startswith(f"torchlint.toml:{place}: `")
    assert str(error).endswith(f" is not a pattern: {reason}")
    assert error.excerpt


@pytest.mark.skipif(os.sep != "/", reason="backslashes separate folders")
def test_a_folder_with_odd_characters_is_no_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "{a,[b]\\*}"
    folder.mkdir()
    (folder / "torchlint.toml").write_text('extend-exclude = ["sub/\\\\{x.py"]')
    settings = Resolver().for_folder(str(folder))
    assert is_excluded(str(folder / "sub" / "{x.py"), settings)
    assert not is_excluded(str(folder / "sub" / "x.py"), settings)


def test_all_rules_and_options_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    errors = errors_of(UNKNOWN, tmp_path)
    places = [str(error).partition(": ")[0].partition(":")[2] for error in errors]
    assert places == ["1:20", "3:5", "5:41", "7:1", "8:9", "9:8"]
    assert [error.excerpt.splitlines()[-1].partition("|")[2].strip() for error in errors[:3]] == [
        "^" * len('"TL998"'),
        "^" * len('"missing-evil"'),
        "^" * len('"QQ"'),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("select = [\n", "1:11"),
        ("fix = true\nselect = [TL1]\n", "2:11"),
        ("fix = true\nfix = true\n", "2:11"),
        ('baseline = "a\n', "1:14"),
    ],
)
def test_a_syntax_error_has_a_place(tmp_path: Path, text: str, place: str) -> None:
    (error,) = errors_of(text, tmp_path)
    assert f"torchlint.toml:{place}: not valid TOML: " in str(error)
    assert error.excerpt.splitlines()[1].endswith(text.splitlines()[int(place[0]) - 1])


def test_the_check_of_a_file_prints_all_errors(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "torchlint.toml").write_text(UNKNOWN)
    done = torchlint_in(tmp_path, "config", "--check")
    assert (done.returncode, done.stdout) == (2, "")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 6
    assert done.stderr.splitlines()[1:4] == [
        "  |",
        '1 | select = ["TL101", "TL998"]',
        "  |                    ^^^^^^^",
    ]


def test_the_errors_of_a_folder_are_those_of_a_run_in_it(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    for folder in ("sub", "sub/deep"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.py").write_text("x = 1\n")
    (tmp_path / "sub" / "torchlint.toml").write_text("selekt = []\nfix = 1\n")
    inside = torchlint_in(tmp_path / "sub", "t.py").stderr
    assert inside.count("error: ") == inside.count("^\n") == 2
    for arguments in (["."], ["sub/t.py", "sub"], ["--show-files"]):
        done = torchlint_in(tmp_path, *arguments)
        assert (done.returncode, done.stderr.replace("sub/", "")) == (2, inside)


def test_an_excerpt_sends_no_escape_sequence(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "torchlint.toml").write_text("fix = 1 # \033[31m\n".replace("\033", "\x7f"), encoding="utf-8")
    assert "\x7f" not in torchlint_in(tmp_path, "config", "--check").stderr


@pytest.mark.parametrize(
    ("text", "target"),
    [("2.4", (2, 4)), ('"2.4"', (2, 4)), ("2.10", (2, 10)), ('"2.10.1"', (2, 10))],
)
def test_a_version_may_be_written_as_a_number(tmp_path: Path, text: str, target: tuple[int, int]) -> None:
    (tmp_path / "torchlint.toml").write_text(f"target-torch = {text}\n")
    assert Resolver().for_folder(str(tmp_path)).target_torch == target


def test_an_option_that_is_an_expression_may_be_a_number(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text("rules.single-process-dataloader.num-workers = 4\n")
    options = Resolver().for_folder(str(tmp_path)).options
    assert options == {"single-process-dataloader": {"num-workers": "4"}}


def test_a_setting_on_the_command_line_may_extend_a_file(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD, RISKY\n")
    (project / "other").mkdir()
    (project / "other" / "base.toml").write_text('ignore = ["ZZ102"]\n')
    done = torchlint_in(project, "--config", 'extend = "other/base.toml"', "--output-format", "concise", "-q")
    assert done.stdout == "a.py:1:5: ZZ101 [*] loud-word: LOUD is found\n"
    done = torchlint_in(project, "--config", 'extend = "nowhere.toml"')
    assert done.stderr.startswith("error: nowhere.toml: cannot be read: No such file")
