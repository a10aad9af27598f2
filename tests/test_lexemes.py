"""What regular expressions see in a text: code, names, lines, brackets, for the screens of rules."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.source.lexemes import NEWLINE, behind, closing_bracket, code_of, in_lines, line_starts, names


@given(st.text(alphabet="aé_1 (.)+\n'[", max_size=60))
def test_the_names_are_those_of_a_pattern(text: str) -> None:
    assert names(text) == set(re.findall(r"\w+", text))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1  # one\ny = 2\n", "x = 1  \ny = 2\n"),
        ('"""Doc # 1"""\nx = \'# 2\'\n', "\nx = '# 2'\n"),
        ("f('''a\nb''', \"c\")\n", 'f(, "c")\n'),
        (r'x = "a\"#"  # b', r'x = "a\"#"  '),
        ("x = 'open\ny = 2  # two", "x = 'open\ny = 2  "),
        ('x = """open\ny = 2', "x = "),
    ],
)
def test_code_without_comments_and_triple_quoted_strings(text: str, code: str) -> None:
    assert code_of(text) == code


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


@given(st.text(alphabet="ab \n", max_size=40))
def test_the_beginnings_of_lines_with_a_word(text: str) -> None:
    found = [match[0] for match in in_lines(text, "ab", re.compile(r" *ab"))]
    assert found == re.findall(r"^ *ab", text, re.MULTILINE)
