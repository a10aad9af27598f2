"""The work of a check grows with the size of a file: twice the code, about twice the calls."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from benchmarks.growth import SHAPES
from torchlint.engine.checker import check
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.registry import load_rules
from torchlint.settings.settings import Settings
from torchlint.source.source import Source

_ALL_RULES = Settings(codes=frozenset(rule.code for rule in (*load_rules(), *ENGINE_RULES)))


def _calls_of_a_check(text: str) -> int:
    """How many functions, of Python and built in, a check of ``text`` calls once it is parsed."""
    parse_pieces(text)
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        check(Source.from_text(text, "shape.py"), _ALL_RULES)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "name",
    [
        "aliases-of-imports",
        "compiled-fan",
        "global-readers",
        "loaders",
        "modes",
        "options",
        "parameters",
        "same-method",
        "scalers",
        "step-arrays",
        "step-attentions",
        "step-backwards",
        "step-inferences",
        "step-moves",
        "stored-in-methods",
        "timed",
        "version-checks",
        "withs",
        "zeroed",
    ],
)
def test_twice_the_code_takes_about_twice_the_calls(name: str) -> None:
    _, make = SHAPES[name]
    _calls_of_a_check(make(4))  # imports, and what is kept of rules
    one, two = _calls_of_a_check(make(60)), _calls_of_a_check(make(120))
    assert two < 2.3 * one


def test_every_shape_is_python() -> None:
    for smallest, make in SHAPES.values():
        for size in (2, smallest):
            compile(make(size), "<shape>", "exec")
