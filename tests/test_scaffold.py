"""``python -m rules`` makes the files of a new rule."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rules.__main__ import scaffold
from validation.pairs import find_pairs


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one family of rules."""
    (tmp_path / "rules" / "layers").mkdir(parents=True)
    (tmp_path / "rules" / "layers" / "__init__.py").touch()
    return tmp_path


def test_what_it_makes_is_python_and_a_pair_that_can_be_measured(checkout: Path) -> None:
    made = scaffold(checkout, "TL799", "slow-layer", "layers")
    assert {path.name for path in made} == {"slow_layer.py", "cases.py", "before.py", "after.py"}
    for path in made:
        ast.parse(path.read_text(encoding="utf-8"), str(path))
    (pair,) = find_pairs(checkout)
    assert (pair.name, pair.kind, set(pair.sizes)) == ("slow-layer", "rule", {"cuda", "cpu"})


def test_files_that_exist_are_left_alone(checkout: Path) -> None:
    first = scaffold(checkout, "TL799", "slow-layer", "layers")
    first[0].write_text("mine")
    assert scaffold(checkout, "TL799", "slow-layer", "layers") == []
    assert first[0].read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("TL9", "slow-layer", "layers"), "TL9: a code consists of"),
        (("TL799", "SlowLayer", "layers"), "SlowLayer: a name consists of"),
        (("TL799", "slow-layer", "layer"), "layer: unknown family; the families are layers"),
    ],
)
def test_a_wrong_argument_is_told(checkout: Path, arguments: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scaffold(checkout, *arguments)
