"""Suppressions: what they silence, which are stale, and what removing one leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.engine.checker import check
from torchlint.engine.fixer import fix
from torchlint.findings.suppressions import find_suppressions, suppress
from torchlint.model.module import Module
from torchlint.settings.settings import Settings
from torchlint.source.source import Source

MakeSettings = Callable[..., Settings]


def codes(text: str, settings: Settings) -> list[str]:
    """The codes reported in a text."""
    return [diagnostic.code for diagnostic in check(Source.from_text(text, "a.py"), settings)]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# NoQA some words",
        "# noqa: ZZ101",
        "# noqa:ZZ101",
        "# noqa : zz101",
        "# noqa: E501, ZZ101",
        "# noqa: E501 ZZ101",
        "# noqa: ZZ101 because it is loud",
        "# loud on purpose  # noqa: ZZ101",
        "# noqa: ZZ101  # type: ignore",
    ],
)
def test_comments_that_suppress(demo: MakeSettings, comment: str) -> None:
    assert codes(f"x = LOUD  {comment}\n", demo()) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: ZZ1012",
        "# noqa: ZZ10",
        "# noqa: because",
        "# noqattle",
        "# no qa",
        "# see noqa",
        "# nice",
    ],
)
def test_comments_that_do_not(demo: MakeSettings, comment: str) -> None:
    assert codes(f"x = LOUD  {comment}\n", demo(ignore=["TL001", "ZZ301"])) == ["ZZ101"]


@pytest.mark.parametrize(
    "text",
    [
        "x = LOUD, '# noqa'\n",
        "x = LOUD, '''\n# noqa\n'''\n",
        'x = LOUD, "\\"# noqa"\n',
        "x = LOUD, 'a\\\n # noqa'\n",
        "# noqa\nx = LOUD\n# noqa\n",
    ],
)
def test_text_in_strings_and_on_other_rows_suppresses_nothing(demo: MakeSettings, text: str) -> None:
    assert codes(text, demo()) == ["ZZ101"]


def test_a_diagnostic_over_several_rows_is_suppressed_on_any_of_them() -> None:
    text = "call(\n    a,\n    b,\n)\n"
    for row in range(1, 5):
        lines = text.splitlines()
        lines[row - 1] += "  # noqa: AB123"
        source = Source.from_text("\n".join(lines))
        from torchlint.rule import Diagnostic

        diagnostic = Diagnostic("AB123", "some-name", "", 0, 4, rows=(1, 4))
        assert suppress(source, [diagnostic], {"AB123"}, report_unused=True) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# torchlint: noqa\nx = LOUD\ny = RISKY\n", []),
        ("x = LOUD\ny = RISKY\n# torchlint:noqa\n", []),
        ("# torchlint: noqa: ZZ101\nx = LOUD\ny = RISKY\n", ["ZZ102"]),
        ("# TORCHLINT: NOQA: ZZ101, ZZ102\nx = LOUD\ny = RISKY\n", []),
        ("x = LOUD  # torchlint: noqa\ny = RISKY\n", ["ZZ101", "ZZ102"]),
        ("# ruff: noqa\nx = LOUD\n", ["ZZ101"]),
        ("# torchlint: noqa\nx = 1  # noqa: ZZ101\n", []),
    ],
)
def test_comments_for_a_file(demo: MakeSettings, text: str, expected: list[str]) -> None:
    assert codes(text, demo()) == expected


def test_noqa_can_be_ignored(demo: MakeSettings) -> None:
    settings = demo()
    ignoring = Settings(settings.codes, settings.plugins, ignore_noqa=True)
    assert codes("x = LOUD  # noqa\ny = 1  # noqa: ZZ101\n", ignoring) == ["ZZ101"]


def test_invalid_syntax_can_be_suppressed(demo: MakeSettings) -> None:
    assert codes("LOUD = (\n", demo()) == ["TL002"]
    assert codes("# torchlint: noqa: TL002\nLOUD = (\n", demo()) == []
    assert codes("LOUD = (  # noqa: ZZ101\n", demo()) == ["TL002"], "nothing is known about other rules"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # noqa: ZZ101\n", "x = 1\n"),
        ("x = 1  # noqa: ZZ101", "x = 1"),
        ("x = 1\t#noqa:ZZ101\r\n", "x = 1\r\n"),
        ("x = 1  # noqa: ZZ101, ZZ102\n", "x = 1\n"),
        ("x = 1  # noqa: ZZ101, E501\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501,ZZ101\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501 ZZ101  F401\n", "x = 1  # noqa: E501  F401\n"),
        ("x = LOUD  # noqa: ZZ102, ZZ101\n", "x = LOUD  # noqa: ZZ101\n"),
        ("x = 1  # noqa: ZZ101 it is loud\n", "x = 1  # it is loud\n"),
        ("x = 1  # noqa: ZZ101  # type: ignore\n", "x = 1  # type: ignore\n"),
        ("x = 1  # type: ignore  # noqa: ZZ101\n", "x = 1  # type: ignore\n"),
        ("x = 1  # noqa: E501, ZZ101  # why\n", "x = 1  # noqa: E501  # why\n"),
        ("x = 1\n# torchlint: noqa: ZZ101\ny = 2\n", "x = 1\ny = 2\n"),
        ("f(\n    # noqa: ZZ101\n)\n", "f(\n)\n"),
        ("# noqa: ZZ101", ""),
        ("# torchlint: noqa: ZZ101, ZZ102\nx = LOUD\n", "# torchlint: noqa: ZZ101\nx = LOUD\n"),
    ],
)
def test_the_fix_removes_what_is_stale_and_nothing_else(demo: MakeSettings, before: str, after: str) -> None:
    settings = demo()
    assert codes(before, settings) == ["TL001"]
    assert fix(Source.from_text(before, "a.py"), settings).source.text == after
    assert codes(after, settings) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # noqa\n",
        "x = 1  # noqa: E501, F401\n",
        "x = 1  # noqa: ZZ301\n",  # not enabled
        "x = 1  # noqa: ZZ999\n",  # no rule of this run
        "x = 1  # noqa: TL001, ZZ101\n",
        "# torchlint: noqa: TL001\nx = 1  # noqa: ZZ101\n",
        "s = '# noqa: ZZ101'\n",
    ],
)
def test_what_is_not_called_stale(demo: MakeSettings, text: str) -> None:
    assert codes(text, demo()) == []


def test_a_rule_that_crashed_has_said_nothing_about_its_suppressions(demo: MakeSettings) -> None:
    text = "CRASH = 1  # noqa: ZZ103\nx = 1  # noqa: ZZ101\n"
    crashes: list[Exception] = []
    found = check(Source.from_text(text, "a.py"), demo(), on_crash=crashes.append)
    assert [(diagnostic.code, diagnostic.rows) for diagnostic in found] == [("TL001", (2, 2))]
    assert len(crashes) == 1


_PIECES = [
    "'",
    '"',
    "'''",
    '"""',
    "\\",
    "\n",
    "\r",
    "#",
    " noqa",
    ": ",
    "TL101",
    ", ",
    "torchlint:",
    "f",
    "{",
    "}",
    "é",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
def test_no_text_confuses_the_search(text: str) -> None:
    source = Source.from_text(text)
    end = 0
    for suppression in find_suppressions(source):
        assert end <= suppression.start < suppression.end <= len(text)
        assert text[suppression.start] == "#"
        assert "\n" not in text[suppression.start : suppression.end]
        end = suppression.end


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("with a:\n    b\n", 1),
        ("with (\n    a\n):\n    b\n", 3),
        ("with a:  # why\n    # first\n\n    for b in c:\n        d\n", 1),
        ("with a:\n    for b in c:\n        d\n", 1),
        ("with a: b\n", 1),
        ("with a: \\\n    b\n", 2),
    ],
)
def test_a_compound_statement_is_suppressed_on_the_rows_of_its_header(text: str, last: int) -> None:
    module = Module.parse(text)
    assert module.statement_rows(module.tree.withs[0].items[0].item) == (1, last)
