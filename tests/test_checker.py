"""The one way from a source to its diagnostics."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from demo_pack import Crashing

import torchlint
from torchlint.engine.checker import AbandonedError, InternalError, check
from torchlint.model.module import Module
from torchlint.rule import Diagnostic, Severity
from torchlint.settings.settings import Settings
from torchlint.source.source import Source

MakeSettings = Callable[..., Settings]


def test_diagnostics_come_in_the_order_of_the_text(demo: MakeSettings) -> None:
    found = check(Source.from_text("a = RISKY\nb = LOUD, LOUD\n", "a.py"), demo())
    assert [(one.code, one.rows, one.severity) for one in found] == [
        ("ZZ102", (1, 1), Severity.INFO),
        ("ZZ101", (2, 2), Severity.WARNING),
        ("ZZ101", (2, 2), Severity.WARNING),
    ]


def test_only_enabled_rules_speak(demo: MakeSettings) -> None:
    text = "a = RISKY, LOUD\n"
    assert [one.code for one in check(Source.from_text(text, "a.py"), demo(select=["ZZ102"]))] == ["ZZ102"]
    settings = demo(per_file_ignores={"a.py": ["ZZ101"]})
    assert [one.code for one in check(Source.from_text(text, "a.py"), settings)] == ["ZZ102"]
    assert [one.code for one in check(Source.from_text(text, "b.py"), settings)] == ["ZZ102", "ZZ101"]


def test_a_cancelled_check_asks_no_further_rule(demo: MakeSettings) -> None:
    source = Source.from_text("a = LOUD, CRASH\n", "a.py")
    settings = demo(select=["ZZ101", "ZZ103"])
    with pytest.raises(InternalError):
        check(source, settings)
    answers = [False, True]  # before ZZ101, before ZZ103
    with pytest.raises(AbandonedError):
        check(source, settings, is_cancelled=lambda: answers.pop(0))
    assert answers == []


def test_a_file_without_the_words_of_a_rule_is_not_parsed() -> None:
    program = (
        "import sys; from torchlint import load_settings; from torchlint.engine.checker import check;"
        "from torchlint.source.source import Source;"
        "settings = load_settings();"
        "assert check(Source.from_text('x = (\\n' * 9), settings) == [];"
        "assert 'libcst' not in sys.modules and 'rich' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ('x = 1\nprint "LOUD"\n', 2, "Missing parentheses"),
        ("def f():\n    LOUD = (\n", 2, "never closed"),
        ("if x:\n        LOUD\n    y\n", 3, "unindent"),
        ("LOUD = " + "(" * 5000 + ")" * 5000, 1, "too many nested parentheses"),
        ("LOUD = " + "-" * 100_000 + "1", 1, "nested too deeply"),
        ("LOUD = x" + ".a" * 100_000, 1, "nested too deeply"),
    ],
)
def test_what_does_not_parse_is_one_diagnostic(demo: MakeSettings, text: str, row: int, reason: str) -> None:
    (found,) = check(Source.from_text(text, "a.py"), demo())
    assert (found.code, found.rows) == ("TL002", (row, row))
    assert reason in found.message
    assert "\n" not in found.message


@pytest.mark.parametrize(
    "line", ["import torch", "    from torch.utils import data", "import os, torch", "import pytorch_lightning as pl"]
)
def test_the_syntax_of_a_file_that_imports_torch_is_checked(demo: MakeSettings, line: str) -> None:
    text = f"if 1:\n    pass\n{line}\nx = (\n"
    assert [one.code for one in check(Source.from_text(text, "a.py"), demo())] == ["TL002"]
    assert check(Source.from_text(text, "a.py"), demo(ignore=["TL002"])) == []
    assert check(Source.from_text(text, "third_party/a.py"), demo()) == []
    assert check(Source.from_text(text.replace("torch", "numpy"), "a.py"), demo()) == []


def test_other_syntax_is_checked_only_if_asked(demo: MakeSettings) -> None:
    source = Source.from_text("x = (\n", "a.py")
    assert check(source, demo()) == []
    assert [one.code for one in check(source, demo(), syntax=True)] == ["TL002"]
    assert check(source, demo(ignore=["TL002"]), syntax=True) == []
    assert check(Source.from_text("", "a.py"), demo(), syntax=True) == []


def test_a_crashing_rule_costs_only_itself(demo: MakeSettings) -> None:
    crashes: list[InternalError] = []
    found = check(Source.from_text("CRASH = LOUD\n", "a.py"), demo(), on_crash=crashes.append)
    assert [one.code for one in found] == ["ZZ101"]
    assert [str(crash).partition(" (")[0] for crash in crashes] == ["a.py: ZZ103 crashed: KeyError: 'a bug'"]
    assert "please report" in str(crashes[0])
    with pytest.raises(InternalError):
        check(Source.from_text("CRASH = 1\n", "a.py"), demo())


def test_a_rule_that_recurses_without_end_costs_only_itself(
    demo: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recurse(self: Crashing, module: Module) -> Iterator[Diagnostic]:
        return recurse(self, module)

    monkeypatch.setattr(Crashing, "check", recurse)
    crashes: list[InternalError] = []
    found = check(Source.from_text("CRASH = LOUD\n", "a.py"), demo(), on_crash=crashes.append)
    assert [one.code for one in found] == ["ZZ101"]
    assert [str(crash).partition(" maximum")[0] for crash in crashes] == ["a.py: ZZ103 crashed: RecursionError:"]


def test_a_crash_of_the_model_is_told_like_one_of_a_rule(demo: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchlint.model.module import Module

    def broken(*arguments: object, **options: object) -> Module:
        raise IndexError("a bug\nin the model")

    monkeypatch.setattr(Module, "parse", broken)
    crashes: list[InternalError] = []
    assert check(Source.from_text("x = LOUD\n", "a.py"), demo(), on_crash=crashes.append) == []
    assert str(crashes[0]).startswith("a.py: the analysis crashed: IndexError: a bug in the model (")
    with pytest.raises(InternalError):
        check(Source.from_text("x = LOUD\n", "a.py"), demo())


def test_the_garbage_collector_is_left_as_it_was(demo: MakeSettings) -> None:
    for text in ("LOUD = 1\n", "LOUD = (\n"):
        check(Source.from_text(text, "a.py"), demo())
        assert gc.isenabled()


def test_the_python_api(tmp_path: Path) -> None:
    settings = torchlint.load_settings(None, {"plugins": ["demo_pack"], "select": ["ZZ1"]})
    assert [one.code for one in torchlint.check_text("x = LOUD\n", settings=settings)] == ["ZZ101"]
    assert torchlint.fix_text("x = LOUD\n", settings=settings).source.text == "x = loud\n"
    (tmp_path / "a.py").write_text("x = LOUD\n")
    with ThreadPoolExecutor(1) as executor:
        result, missing = torchlint.check_paths([str(tmp_path), str(tmp_path / "nowhere")], settings, executor)
    assert [one.code for one in result.diagnostics] == ["ZZ101"]
    assert "no such file" in missing.errors[0]
