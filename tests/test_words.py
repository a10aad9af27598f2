"""Which words a text contains."""

from __future__ import annotations

import re

import pytest

from torchlint.rule.words import Word, contains

_TEXT = "import torch as th\nloss_fn.backward()\nfor x in y: x.item()\n"


@pytest.mark.parametrize(
    "word",
    [
        *("torch", "backward(", "ward", ".item()", "for ", "as th\n", ": x", "()\n"),
        re.compile(r"th$", re.MULTILINE),
        ("DataLoader", "item"),
        ("DataLoader", re.compile(r"x\.\w+\(")),
    ],
)
def test_words_of_a_text(word: Word) -> None:
    assert contains(_TEXT, (word,))
    assert not contains(_TEXT, ("torch", word, "DataLoader"))


@pytest.mark.parametrize(
    "word", ["torch.", "fn.item", "item(x", "import th", "for  ", re.compile("^th"), ("DataLoader", "item ")]
)
def test_words_that_are_not_in_a_text(word: Word) -> None:
    assert not contains(_TEXT, (word,))
    assert not contains(_TEXT, ("torch", word))
