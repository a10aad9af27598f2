"""What regular expressions see in a text: the names of calls, for the screens of rules."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.source.lexemes import NEWLINE, behind, called_names, closing_bracket, line_starts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f(g(x), a.h(1))", {"f", "g", "h"}),
        ("torch.cuda.empty_cache()\n", {"empty_cache"}),
        ("def clean(x):\n\treturn(x)\n", {"clean", "return"}),
        ("x = (1, [2](3), 'a'(4))", set()),
        ("f (x); g\n(y)", set()),
        ("", set()),
    ],
)
def test_names_before_parentheses(text: str, names: set[str]) -> None:
    assert called_names(text) == names


@given(st.text(alphabet="ab_1 (.)\n'[", max_size=60))
def test_the_names_are_those_of_a_pattern(text: str) -> None:
    assert called_names(text) == set(re.findall(r"(?<!\w)(\w+)\(", text))


def test_a_bracket_is_closed_within_a_limit() -> None:
    text = "f(a, g(b)[0]) + (c)"
    assert closing_bracket(text, 2, 100) == text.index(" +") - 1
    assert closing_bracket(text, 2, 5) is None
    assert closing_bracket("f(a", 2, 100) is None


@given(st.text(alphabet="ab=\\ \n\r\f", max_size=40))
def test_lines_begin_behind_newlines(text: str) -> None:
    assert line_starts(text) == [0, *(match.end() for match in re.finditer(NEWLINE, text))]


@given(st.text(alphabet="ab= \n", max_size=40), st.sampled_from(["a", "ab", "aa"]))
def test_a_word_and_what_is_behind_it_are_one_pattern(text: str, word: str) -> None:
    behind_it = r"\b\s{0,2}=(?!=)([^\n]*)"
    found = [(at, match[1]) for at, match in behind(text, word, re.compile(behind_it))]
    assert found == [(match.start(), match[1]) for match in re.finditer(word + behind_it, text)]
