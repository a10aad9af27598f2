"""The work of a check grows with the code: twice the code, or twice the files, about twice the calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import pytest

from benchmarks.growth import SHAPES
from benchmarks.growth.files import PROGRAMS
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
    return _calls(lambda: check(Source.from_text(text, "shape.py"), _ALL_RULES))


def _calls_of_a_program(files: Mapping[str, str], folder: Path) -> int:
    """How many functions, of Python and built in, a check of all ``files``, put into ``folder``, calls."""
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    sources = [Source.from_text(text, str(folder / name)) for name, text in files.items()]
    return _calls(lambda: [check(source, _ALL_RULES) for source in sources])


def _calls(run: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
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
        "step-flushes",
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_twice_the_files_take_about_twice_the_calls(name: str, tmp_path: Path) -> None:
    _, make = PROGRAMS[name]
    _calls_of_a_program(make(2), tmp_path / "2")  # imports, and what is kept of rules
    one, two = (_calls_of_a_program(make(size), tmp_path / str(size)) for size in (16, 32))
    assert two < 2.3 * one


def test_every_shape_is_python() -> None:
    for smallest, make in SHAPES.values():
        for size in (2, smallest):
            compile(make(size), "<shape>", "exec")
    for _, make_files in PROGRAMS.values():
        for name, text in make_files(3).items():
            compile(text, name, "exec")
