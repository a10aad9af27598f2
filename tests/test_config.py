"""``torchlint config``: explains every setting, validates a settings file, shows what is in force; and its pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import torchlint
from torchlint.commands.arguments import parser
from torchlint.commands.config import entries, page, schema
from torchlint.settings.keys import DEFAULT_EXCLUDE, KEYS, SettingType
from torchlint.settings.layers import Layer, inline_layers, layer_of, parse_toml
from torchlint.settings.settings import all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]
DOCS = Path(__file__).resolve().parent.parent / "docs"
ENTRIES = entries(all_rules())


def overridden(layer: Layer) -> dict[str, Any]:
    """The values of a layer that can be tried without files."""
    values = {key: value for key, value in layer.values.items() if key not in ("extend", "baseline", "plugins")}
    return {**values, "device": "CPU"} if "min-speedup" in values else values  # where something was measured


@pytest.mark.parametrize("name", ENTRIES)
def test_examples_are_valid(name: str) -> None:
    entry = ENTRIES[name]
    layer = layer_of(parse_toml(entry.example.encode(), "example"), "example", "/")
    assert list(layer.values) == [name.partition(".")[0]]
    torchlint.load_settings(None, overridden(layer))
    assert entry.meaning.endswith(".") and entry.meaning[0].isupper()


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.default[0] in '"[{0123456789tf'])
def test_defaults_are_the_defaults(name: str) -> None:
    """Where a default is written as a value, setting it changes nothing."""
    entry = ENTRIES[name]
    if entry.default.startswith(("the ", "folders ")):
        return
    (layer,) = inline_layers(f"{name} = {entry.default}")
    plain, same = torchlint.load_settings(), torchlint.load_settings(None, dict(layer.values))
    if "." in name:
        rule = next(rule for rule in all_rules() if rule.name == name.split(".")[1])
        option = name.split(".")[2]
        assert same.option(rule, option) == plain.option(rule, option)
    else:
        assert same == plain


def test_defaults_in_words_are_true() -> None:
    assert {".git", ".venv", "node_modules"} <= set(DEFAULT_EXCLUDE)
    assert torchlint.load_settings().baseline == ""


def test_every_setting_of_the_command_line_is_named() -> None:
    flags = parser()._option_string_actions
    for name in KEYS:
        assert ENTRIES[name].option == (f"--{name}" if f"--{name}" in flags else None)
    assert ENTRIES["select"].option == "--select"
    assert ENTRIES["extend"].option is None  # only a file extends another


def test_all_settings_are_listed(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(tmp_path, "config")
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [head.partition(" ")[0] for head in heads] == list(ENTRIES)
    assert "fix (true or false; default: false)" in heads
    assert 'rules.single-process-dataloader.num-workers (a string; default: "min(8, os.cpu_count() or 1)")' in heads
    listed = json.loads(torchlint_in(tmp_path, "config", "--output-format", "json").stdout)
    assert listed == [vars(entry) for entry in ENTRIES.values()]


def test_one_setting_is_explained(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, "config", "min-speedup")
    assert done.returncode == 0
    assert done.stdout.startswith("## `min-speedup`\n")
    assert "Value: a number. Default: `0`. On the command line: `--min-speedup`." in done.stdout
    assert "[tool.torchlint]\nmin-speedup = 1.1\n" in done.stdout
    (one,) = json.loads(torchlint_in(project, "config", "min-speedup", "--output-format", "json").stdout)
    assert one == vars(ENTRIES["min-speedup"])
    plugins = torchlint_in(project, "config", "rules.opted-word.count").stdout
    assert "Value: an integer. Default: `3`." in plugins


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["config", "selct"], "unknown setting `selct`; did you mean `select`?"),
        (["config", "xyzzy"], "unknown setting `xyzzy`; `torchlint config` lists them"),
        (["config", "rules.static-paddin.short"], "unknown setting `rules.static-paddin.short`; did you mean `rules."),
        (["config", "select", "--check"], "KEY, --check and --show exclude each other"),
        (["config", "select", "--output-format", "json-schema"], "--output-format json-schema describes all settings"),
        (["config", "--show", "--output-format", "markdown"], "--output-format markdown explains settings"),
        (["config", "--show", "nowhere"], "nowhere: no such file or folder"),
        (["config", "--check", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
        (["config", "--check", "other/pyproject.toml"], "other/pyproject.toml: nothing is set in `[tool.torchlint]`"),
        (["config", "--check", "bad.toml"], "bad.toml:1:11: unknown rule 'TL998' in `select`; did you"),
        (["config", "--check", "option.toml"], "option.toml:1:30: `rules.static-padding.short` must be an integer"),
        (["config", "--check", "syntax.toml"], "syntax.toml:1:11: not valid TOML: "),
        (["config", "--check", "extending.toml"], "bad.toml:1:11: unknown rule 'TL998'"),
    ],
)
def test_faults_are_told(project: Path, torchlint_in: RunTorchlint, arguments: list[str], message: str) -> None:
    (project / "other").mkdir()
    (project / "other" / "pyproject.toml").write_text("[tools.torchlint]\nfix = true\n")
    (project / "bad.toml").write_text('select = ["TL998"]\n')
    (project / "option.toml").write_text('rules.static-padding.short = "x"\n')
    (project / "syntax.toml").write_text("select = [\n")
    (project / "extending.toml").write_text('extend = "bad.toml"\n')
    done = torchlint_in(project, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == (4 if ".toml:1:" in message else 1)  # with the line of the file


def test_a_valid_file_is_ok(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "pyproject.toml").write_text("[tool.torchlint]\nfix = true\n")
    assert torchlint_in(project, "config", "--check").stdout == "torchlint.toml: ok\n"
    done = torchlint_in(project, "config", "--check", "sub/pyproject.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "sub/pyproject.toml: ok\n", "")
    done = torchlint_in(project, "config", "--check", "--output-format", "json")
    assert json.loads(done.stdout) == {"file": "torchlint.toml", "valid": True}


def test_without_a_file_there_is_nothing_to_validate(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(tmp_path, "config", "--check")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no settings file here or in the folders above")


def test_what_is_in_force_is_shown_with_its_files(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "base.toml").write_text('ignore = ["TL102"]\nper-file-ignores = { "a.py" = ["TL103"] }\n')
    (tmp_path / "torchlint.toml").write_text('extend = "base.toml"\nselect = ["TL101", "TL102", "TL103"]\n')
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    (tmp_path / "src").mkdir()
    for path in (tmp_path / "a.py", tmp_path / "src" / "b.py"):
        path.write_text("x = 1\n")
    done = torchlint_in(tmp_path, "config", "--show", "src/b.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "base.toml:",
        '    ignore = ["TL102"]',
        '    per-file-ignores = { "a.py" = ["TL103"] }',
        "torchlint.toml:",
        '    extend = "base.toml"',
        '    select = ["TL101", "TL102", "TL103"]',
        "target-torch: 2.4",
        "rules: TL002 TL101 TL103",  # what the base ignores stays ignored
    ]
    shown = json.loads(torchlint_in(tmp_path, "config", "--show", "a.py", "--output-format", "json").stdout)
    assert shown["rules"] == ["TL002", "TL101"]
    assert shown["target-torch"] == "2.4"
    assert [file["file"] for file in shown["files"]] == ["base.toml", "torchlint.toml"]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "torchlint.toml").write_text("")
    assert torchlint_in(tmp_path / "plain", "config", "--show").stdout.startswith("torchlint.toml:\ntarget-torch: ")


def test_the_page_of_settings_is_up_to_date() -> None:
    made = page(list(ENTRIES.values()))
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == made, (
        "run `python -m torchlint config --output-format markdown > docs/settings.md`"
    )


BLOCKS = re.findall(r"```toml\n(.*?)```", (DOCS / "configuration.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_of_the_page_are_valid(block: str) -> None:
    torchlint.load_settings(None, tomllib.loads(block)["tool"]["torchlint"])


def test_the_more_specific_selector_wins_as_the_page_says() -> None:
    (block,) = (block for block in BLOCKS if 'ignore = ["TL1"]' in block)
    codes = torchlint.load_settings(None, tomllib.loads(block)["tool"]["torchlint"]).codes
    assert {code for code in codes if code.startswith("TL1")} == {"TL101"}
    assert "TL201" in codes


def test_the_schema_admits_what_the_settings_admit() -> None:
    made = schema(all_rules())
    jsonschema.Draft202012Validator.check_schema(made)
    validator = jsonschema.Draft202012Validator(made)
    for entry in ENTRIES.values():
        validator.validate(tomllib.loads(entry.example))
    for wrong in (
        "selec = []",
        "select = 'TL1'",
        "fix = 1",
        "min-speedup = '1'",
        "output-format = 'jsom'",
        "rules.static-paddin.short = 1",
        "rules.static-padding.shor = 1",
        "rules.static-padding.short = 'x'",
        "per-file-ignores = { 'a.py' = 'TL1' }",
    ):
        assert list(validator.iter_errors(tomllib.loads(wrong))), wrong
    assert set(SettingType) == {key.kind for key in KEYS.values()}  # else a kind is untried here


def test_another_validator_reads_the_schema(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    made = torchlint_in(tmp_path, "config", "--output-format", "json-schema")
    (tmp_path / "schema.json").write_text(made.stdout)
    (tmp_path / "torchlint.toml").write_text('select = ["TL1"]\n')
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", "schema.json", "torchlint.toml"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "torchlint.toml").write_text('selec = ["TL1"]\n')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "selec" in done.stdout
