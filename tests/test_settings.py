"""Settings: which file counts, what selects a rule, and how mistakes are told."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from torchlint.rule.registry import find_rule
from torchlint.settings.layers import Layer, SettingsError, inline_layers, layer_of
from torchlint.settings.resolver import Resolver
from torchlint.settings.settings import Settings, all_rules

Toml = dict[str, Any]


def resolve(*layers: Toml, **flags: Any) -> Settings:
    """The settings of layers, the last one on top."""
    made: list[Layer] = [layer_of({"plugins": ["demo_pack"], **values}, "demo.toml", "/demo") for values in layers]
    return Resolver(made, isolated=True, **flags).for_folder("/demo")


def on(*layers: Toml) -> set[str]:
    """The demonstration rules and engine diagnostics that are on."""
    return {code for code in resolve(*layers).codes if code[:2] == "ZZ" or code in ("TL001", "TL002")}


ZZ1 = {"ZZ101", "ZZ102", "ZZ103", "ZZ104", "ZZ105", "ZZ106", "ZZ107"}


def test_by_default_all_rules_run_but_those_to_opt_in() -> None:
    assert on({}) == ZZ1 | {"ZZ202", "TL001", "TL002"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"select": ["ZZ101"]}, {"ZZ101"}),
        ({"select": ["loud-word", "zz102"]}, {"ZZ101", "ZZ102"}),
        ({"select": ["ZZ1"]}, ZZ1),
        ({"select": ["ZZ2"]}, {"ZZ201", "ZZ202"}),
        ({"select": ["ZZ"], "ignore": ["ZZ1"]}, {"ZZ201", "ZZ202", "ZZ301"}),
        ({"select": ["ZZ101"], "ignore": ["ZZ"]}, {"ZZ101"}),
        ({"select": ["ZZ"], "ignore": ["ZZ", "ZZ2"], "extend-select": ["ZZ201"]}, {"ZZ201"}),
        ({"select": ["ZZ1"], "ignore": ["ZZ1"]}, set()),
        ({"select": ["ALL"], "ignore": ["ZZ", "TL"]}, set()),
        ({"ignore": ["ALL"], "extend-select": ["ZZ201"]}, {"ZZ201"}),
        ({"extend-select": ["ZZ201"], "ignore": ["ZZ1"]}, {"ZZ201", "ZZ202", "TL001"}),
        ({"select": []}, set()),
    ],
)
def test_the_more_specific_selector_wins(values: Toml, expected: set[str]) -> None:
    assert on(values) - {"TL002"} == expected


def test_the_command_line_selects_anew_but_keeps_what_the_file_ignores() -> None:
    assert on({"select": ["ZZ1"], "ignore": ["ZZ101"]}, {"select": ["ZZ"]}) == {
        *ZZ1,
        "ZZ201",
        "ZZ202",
        "ZZ301",
        "TL002",
    } - {"ZZ101"}
    assert on({"ignore": ["ZZ1"]}, {"select": ["ZZ101"]}) == {"ZZ101", "TL002"}
    assert "ZZ201" in on({"select": ["ZZ1"]}, {"extend-select": ["ZZ201"]})
    assert "ZZ101" not in on({"select": ["ZZ1"]}, {"ignore": ["ZZ101"]})


def test_invalid_syntax_is_reported_whatever_is_selected_unless_ignored() -> None:
    assert "TL002" in on({"select": ["ZZ101"]})
    assert "TL002" not in on({"select": ["ALL"], "ignore": ["TL002"]})
    assert "TL002" not in on({"ignore": ["invalid-syntax"]}, {"select": ["ZZ101"]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"selct": []}, "unknown setting `selct`; did you mean `select`?"),
        ({"fix": "yes"}, "`fix` must be true or false, not 'yes'"),
        ({"select": "ZZ101"}, "`select` must be a list of rule codes, prefixes or names, not 'ZZ101'"),
        ({"exclude": [1]}, "`exclude` must be a list of strings"),
        ({"select": ["ZZ999"]}, "unknown rule 'ZZ999' in `select`; did you mean"),
        ({"ignore": ["lowd-word"]}, "unknown rule 'lowd-word' in `ignore`; did you mean `loud-word`?"),
        ({"select": [""]}, "unknown rule '' in `select`"),
        ({"per-file-ignores": {"a.py": ["QQ"]}}, "unknown rule 'QQ' in `per-file-ignores`"),
        ({"per-file-ignores": {"a.py": "ZZ101"}}, "`per-file-ignores` must be a table"),
        ({"output-format": "jsn"}, "unknown `output-format` 'jsn'; did you mean `json`?"),
        ({"target-torch": "new"}, "`target-torch` must be a version such as \"2.4\", not 'new'"),
        ({"target-torch": True}, '`target-torch` must be a version such as "2.4", not True'),
        ({"target-torch": 2}, '`target-torch` must be a version such as "2.4", not 2'),
        ({"rules": {"opted-wrd": {}}}, "unknown rule name in `rules.opted-wrd`; did you mean `opted-word`?"),
        ({"rules": {"ZZ201": {}}}, "unknown rule name in `rules.ZZ201`; the rule's name is `opted-word`"),
        ({"rules": {"opted-word": {"cout": 1}}}, "unknown option `rules.opted-word.cout`; did you mean `count`?"),
        ({"rules": {"loud-word": {"count": 1}}}, "unknown option `rules.loud-word.count`; the rule has no options"),
        ({"rules": {"opted-word": {"count": "1"}}}, "`rules.opted-word.count` must be an integer, not '1'"),
        ({"rules": {"opted-word": {"count": True}}}, "`rules.opted-word.count` must be an integer, not True"),
        ({"rules": {"opted-word": {"strict": 1}}}, "`rules.opted-word.strict` must be true or false, not 1"),
        ({"plugins": ["no_such_pack"]}, "rule pack 'no_such_pack' cannot be imported"),
    ],
)
def test_mistakes_are_told_in_one_line(values: Toml, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        resolve(values)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "demo.toml" in str(raised.value) or "plugins" in values


def test_options_have_defaults_and_the_last_layer_wins() -> None:
    rule = find_rule(all_rules(("demo_pack",)), "ZZ201")
    assert rule is not None
    settings = resolve({"rules": {"opted-word": {"count": 5, "ratio": 1}}}, {"rules": {"opted-word": {"count": 7}}})
    assert [settings.option(rule, name) for name in ("count", "label", "ratio")] == [7, "x", 1.0]
    assert isinstance(settings.option(rule, "ratio"), float)


def test_the_nearest_file_wins_and_others_are_not_mixed_in(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.torchlint]\nfix = true\nshow-fixes = true\n")
    (tmp_path / "a" / "torchlint.toml").write_text("unsafe-fixes = true\n")
    (inner / "pyproject.toml").write_text("[project]\nname = 'torch-things'\n")
    resolver = Resolver()
    assert resolver.for_folder(str(tmp_path)).fix
    settings = resolver.for_folder(str(inner))
    assert (settings.fix, settings.unsafe_fixes, settings.show_fixes) == (False, True, False)
    assert not Resolver(isolated=True).for_folder(str(inner)).unsafe_fixes


def test_torchlint_toml_wins_over_pyproject_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.torchlint]\nfix = true\n")
    (tmp_path / "torchlint.toml").write_text("fix = false\n")
    assert not Resolver().for_folder(str(tmp_path)).fix


def test_extend_takes_another_file_as_the_base(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.toml").write_text('fix = true\nexclude = ["data"]\nextend-exclude = ["gen"]\n')
    (tmp_path / "sub" / "torchlint.toml").write_text('extend = "../base.toml"\nextend-exclude = ["old"]\n')
    settings = Resolver().for_folder(str(tmp_path / "sub"))
    assert settings.fix
    assert [(glob.pattern, glob.folder) for glob in settings.exclude] == [
        ("data", str(tmp_path)),
        ("gen", str(tmp_path)),
        ("old", str(tmp_path / "sub")),
    ]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"torchlint.toml": 'extend = "torchlint.toml"\n'}, "`extend` leads back to"),
        ({"torchlint.toml": 'extend = "nowhere.toml"\n'}, "nowhere.toml: cannot be read"),
        ({"torchlint.toml": "select = [\n"}, "not valid TOML"),
        ({"torchlint.toml": "# \xe9\n"}, "not UTF-8"),
        ({"pyproject.toml": "[tool]\ntorchlint = 3\n"}, "`tool.torchlint` must be a table"),
        ({"pyproject.toml": "[tool.torchlint\n"}, "not valid TOML"),
    ],
)
def test_a_broken_file_is_told_by_name(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(SettingsError, match=message) as raised:
        Resolver().for_folder(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_pyproject_of_no_concern_may_be_broken(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\ndependencies = ['torch>=2.1']\n")
    assert Resolver().for_folder(str(tmp_path)).target_torch is None


@pytest.mark.parametrize(
    ("requirement", "target"),
    [
        ("torch>=2.1", (2, 1)),
        ("torch >= 2.10.1, <3", (2, 10)),
        ("torch==2.4.*", (2, 4)),
        ("torch~=2.2", (2, 2)),
        ("torch[opt] (>=1.13)", (1, 13)),
        ("torch>=2.3; python_version > '3.9'", (2, 3)),
        ("torch>=2", (2, 0)),
        ("torch>=0.4.0", (1, 11)),
        ("torch>1.4,!=1.12.0", (1, 11)),
        ("torch>=1.4,<2", (1, 11)),
        ("torch>=1.4,<1.8", (1, 4)),
        ("torch>=1.4,<1.11", (1, 4)),
        ("torch>=1.4,<1.11.1", (1, 11)),
        ("torch~=1.8", (1, 11)),
        ("torch~=1.8.0", (1, 8)),
        ("torch==0.4.1", (0, 4)),
        ("torch==1.4", (1, 4)),
        ("torch<1.8", (1, 7)),
        ("torch<=1.8", (1, 8)),
        ("torch<1", (0, 999)),
        ("torch<2.0.0", None),
        ("torch", None),
        ("torch!=1.4.0", None),
        ("torch<3.0", None),
        ("torchvision>=0.18", None),
        ("torch @ https://example.org/torch-2.4.whl", None),
    ],
)
def test_the_target_is_read_from_the_projects_requirement(
    tmp_path: Path, requirement: str, target: tuple[int, int] | None
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\ndependencies = ["numpy", "{requirement}"]\n')
    (tmp_path / "src").mkdir()
    assert Resolver().for_folder(str(tmp_path / "src")).target_torch == target


@pytest.mark.parametrize(
    ("name", "text", "target"),
    [
        ("requirements.txt", "numpy\ntorch>=1.18  # oldest tested\n", (1, 18)),
        ("requirements.txt", "torch==2.1.0+cu121\n", (2, 1)),
        ("requirements.txt", "-r base.txt\ntorchvision==0.18\n", None),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.13,<3\n", (1, 13)),
        ("setup.cfg", "torch>=1.13\n", None),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['numpy', 'torch==1.9'])\n", (1, 9)),
        ("setup.py", "setup(install_requires=['torch>=1.12'] + more)\n", (1, 12)),
        ("setup.py", "print 'torch>=1.9'\n", None),
        ("setup.py", "raise SystemExit  # torch\nsetup(install_requires=read())\n", None),
    ],
)
def test_the_target_is_read_from_older_files_too(
    tmp_path: Path, name: str, text: str, target: tuple[int, int] | None
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "src").mkdir()
    assert Resolver().for_folder(str(tmp_path / "src")).target_torch == target


def test_what_a_project_supports_comes_before_what_it_is_developed_with(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.6.0\n")
    assert Resolver().for_folder(str(tmp_path)).target_torch == (2, 6)
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch==1.9'])\n")
    assert Resolver().for_folder(str(tmp_path)).target_torch == (1, 9)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'torch-things'\ndependencies = ['torch']\n")
    assert Resolver().for_folder(str(tmp_path)).target_torch is None


def test_a_project_without_torch_says_nothing_of_the_one_around(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch==1.9'])\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements.txt").write_text("sphinx\npytorch-sphinx-theme\n")
    assert Resolver().for_folder(str(tmp_path / "docs")).target_torch == (1, 9)


def test_an_old_target_silences_newer_advice(tmp_path: Path) -> None:
    def codes(**values: Any) -> set[str]:
        return {rule.code for rule in resolve({"select": ["ZZ2"], **values}).rules()}

    assert codes() == {"ZZ201", "ZZ202"}
    assert codes(**{"target-torch": "2.4"}) == {"ZZ201", "ZZ202"}
    assert codes(**{"target-torch": "2.3"}) == {"ZZ201"}
    assert codes(**{"target-torch": "2.10"}) == {"ZZ201", "ZZ202"}


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("tests/*", "/demo/tests/deep/a.py", True),
        ("tests", "/demo/tests/a.py", True),
        ("tests/*", "/demo/src/tests/a.py", False),
        ("**/tests/*", "/demo/src/tests/a.py", True),
        ("**/tests/*", "/demo/tests/a.py", True),
        ("conftest.py", "/demo/src/conftest.py", True),
        ("test_*.py", "/demo/src/contest_a.py", False),
        ("/demo/src/*.py", "/demo/src/a.py", True),
        ("!src/*", "/demo/src/a.py", False),
        ("!src/*", "/demo/other/a.py", True),
        ("{t,u}.py", "/demo/u.py", True),
        ("{t,u}.py", "/demo/{t,u}.py", False),
        ("{t,u}.py", "/demo/v.py", False),
        ("{a,b/{c,d*}}/x.py", "/demo/b/deep/x.py", True),
        ("{a,b/{c,d*}}/x.py", "/demo/b/a/x.py", False),
        ("!{src,lib}/*", "/demo/lib/a.py", False),
        ("t{,_x}.py", "/demo/t.py", True),
        ("[{]t,u[}].py", "/demo/{t,u}.py", True),
        ("[^t].py", "/demo/u.py", True),
        ("[^t].py", "/demo/t.py", False),
        ("[]t].py", "/demo/].py", True),
        ("a,b.py", "/demo/a,b.py", True),
    ],
)
def test_per_file_ignores_match_names_and_places(pattern: str, path: str, ignored: bool) -> None:
    settings = resolve({"select": ["ZZ101", "ZZ102"], "per-file-ignores": {pattern: ["ZZ101"]}})
    assert [rule.code for rule in settings.rules(path)] == (["ZZ102"] if ignored else ["ZZ101", "ZZ102"])


def test_inline_settings_are_toml() -> None:
    assert [layer.values for layer in inline_layers('select = ["ZZ101"]')] == [{"select": ["ZZ101"]}]
    with pytest.raises(SettingsError, match="not valid TOML"):
        inline_layers("select = ZZ101")


def test_settings_can_be_sent_to_another_process() -> None:
    settings = resolve({"select": ["ZZ1"], "rules": {"opted-word": {"count": 5}}})
    settings.rules()
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert [rule.code for rule in copy.rules()] == [rule.code for rule in settings.rules()]
