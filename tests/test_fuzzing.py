"""Made-up inputs, a few of each kind with fixed seeds; `benchmarks/reliability` makes as many as one likes."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from random import Random

import hypothesmith
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchlint
from benchmarks.reliability import coverage_guided
from benchmarks.reliability.disguises import disguised
from benchmarks.reliability.idioms import program
from benchmarks.reliability.inputs import Input, Kind
from benchmarks.reliability.invariants import examined
from benchmarks.reliability.syntax import ABOVE, BEHIND, PROGRAMS
from benchmarks.reliability.targets import TARGETS, Target
from torchlint.engine.checker import check
from torchlint.source.source import Source

PAIRS = sorted(Path(__file__).resolve().parent.parent.glob("fixtures/*/before.py"))
#: Rules that fire on a few idioms in two hundred programs.
COMMON = {"TL101", "TL102", "TL103", "TL105", "TL201", "TL204", "TL206", "TL303", "TL402", "TL403", "TL407", "TL411"}


@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_programs_from_the_grammar(seed: int) -> None:
    for number in range(seed, seed + 8):
        one = Input(Kind.IDIOMS, seed=number)
        assert one.outcome().violations == [], one.content().decode("utf-8", "backslashreplace")


def test_programs_from_the_grammar_are_python_and_show_many_rules() -> None:
    settings = torchlint.load_settings(overrides={"select": ["ALL"]})
    fixes = Counter[str]()
    for seed in range(40):
        text = program(Random(seed))
        ast.parse(text)
        fixes.update(one.code for one in check(Source.from_text(text, "a.py"), settings) if one.fix is not None)
    assert set(fixes) >= COMMON


@pytest.mark.parametrize("seed", range(0, 24, 8))
def test_programs_in_odd_formatting(seed: int) -> None:
    for number in range(seed, seed + 8):
        one = Input(Kind.DISGUISE, PAIRS[number % len(PAIRS)], number)
        assert one.outcome().violations == [], one.content().decode("utf-8", "backslashreplace")


def test_odd_formatting_is_made_again_by_its_seed_and_stays_python() -> None:
    text = PAIRS[0].read_text(encoding="utf-8")
    assert len({disguised(text, Random(seed)) for seed in range(20)}) > 15
    for seed in range(20):
        assert disguised(text, Random(seed)) == disguised(text, Random(seed))
        ast.parse(disguised(text, Random(seed)))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_any_syntax(code: str) -> None:
    assert examined(code.encode("utf-8", "surrogatepass"), "a.py", "syntax").violations == []


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(hypothesmith.from_node(auto_target=False))
def test_any_tree(code: str) -> None:
    text = ABOVE + code + BEHIND
    assert examined(text.encode("utf-8", "surrogatepass"), "a.py", "tree").violations == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_parsers(target: Target, data: st.DataObject) -> None:
    """Any bytes, and the bytes of a good input with others in between."""
    seed = data.draw(st.sampled_from(target.seeds))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(seed))] * 2)))
    parts = st.sampled_from([b"", b'"', b"[", b"{", b"\\", b"\0", b"\xff", b"\r", b"#", b"9" * 5000, b" " * 5000, seed])
    target.holds(seed[:start] + data.draw(st.one_of(st.binary(max_size=40), parts)) + seed[end:])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("torchlint.toml", b"timeout = " + b"9" * 5000),
        ("torchlint.toml", b'target-torch = "' + b"9" * 5000 + b'.1"'),
        ("torchlint.toml", b'extend = "\\u0000"'),
        ("torchlint.toml", b'[per-file-ignores]\n"\\u0000" = ["ALL"]'),
        ("torchlint.toml", b'baseline = "\\u0000"'),
        ("suppressions", b"# noqa: A1" * 5_000),
        ("decoding", b"# coding: utf-7\n\x0b"),
    ],
)
@pytest.mark.timeout(30)
def test_what_broke_a_parser(name: str, content: bytes) -> None:
    next(target for target in TARGETS if target.name == name).holds(content)


def test_without_atheris_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["coverage_guided", "decoding"])
    assert coverage_guided.main() == 2
    assert capsys.readouterr().err == "atheris is not installed: pip install atheris\n"
