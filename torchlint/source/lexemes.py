"""Lines, comments and strings of a text that need not be Python: regular expressions that no text makes fail."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

#: What Python takes as the end of a line; str.splitlines would also split at form feeds and the like.
#: Only one way to match `\r\n`: a repetition would otherwise try all.
NEWLINE = r"(?:\r\n|\r(?!\n)|\n)"
#: A comment, up to the end of its line.
COMMENT = r"\#[^\r\n]*"
#: A string without its prefix, as alternatives: ``re`` looks for the first characters of alternatives, not of groups.
#: An unfinished one ends with its line, a triple-quoted one with the text. For ``re.VERBOSE | re.DOTALL``.
STRING = r"""\"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"\"\"|\Z)
    | '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)
    | "[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"?
    | '[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'?"""
#: The beginning of a suppression comment. For ``re.IGNORECASE``.
NOQA = r"\#[ \t]*(?P<whole>torchlint[ \t]*:[ \t]*)?noqa\b"

_NEWLINE = re.compile(NEWLINE)
_LINE = re.compile(rf"[^\r\n]*{NEWLINE}|[^\r\n]+")


def lines(text: str) -> list[str]:
    """The lines of a text, each with its newline."""
    return _LINE.findall(text)


def line_starts(text: str) -> list[int]:
    """Where each line of a text begins, and the end of the text if it ends with a newline."""
    if "\r" in text:
        return [0, *(match.end() for match in _NEWLINE.finditer(text))]
    lengths = map(len, text.split("\n"))
    return list(accumulate(map((1).__add__, lengths), initial=0))[:-1]


_SUPPRESSION = re.compile(rf"{NOQA}[^\r\n]*", re.IGNORECASE)


def without_suppressions(text: str) -> str:
    """``text`` without its suppression comments, and the reasons given in them."""
    return _SUPPRESSION.sub("", text)


_QUOTED = re.compile(rf"({COMMENT}|{STRING})", re.VERBOSE | re.DOTALL)


def comments_in(text: str) -> list[str]:
    """The comments of a text, without the blanks at their ends."""
    if "#" not in text:
        return []
    return [found.rstrip() for found in _QUOTED.findall(text) if found.startswith("#")]


@lru_cache(maxsize=4)  # asked by the screens, and again for the words of a file's context
def code_of(text: str) -> str:
    """``text`` without its comments and triple-quoted strings, which contain examples and explanations."""
    return "".join([part for part in _QUOTED.split(text) if not part.startswith(("#", '"""', "'''"))])


_MARKS = string.punctuation.replace("_", "").encode()
_PUNCTUATION = bytes.maketrans(_MARKS, b" " * len(_MARKS))


@lru_cache(maxsize=2)  # many rules ask about one text after the other
def names(text: str) -> frozenset[str]:
    """The names, keywords and numbers of a text, and the words of its strings: what blanks and punctuation separate."""
    encoded = text.encode("utf-8", "surrogatepass")  # a text beyond ASCII is translated in five times the time
    return frozenset(encoded.translate(_PUNCTUATION).decode("utf-8", "surrogatepass").split())


def places(text: str, *words: str) -> Iterator[int]:
    """Where words begin in a text: all places of the first word, then those of the next."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            yield at
            at = text.find(word, at + 1)


def behind(text: str, word: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Where a word begins that a pattern matches behind, and the match. No pattern is compiled for the word."""
    at = text.find(word)
    while at >= 0:
        found = pattern.match(text, at + len(word))
        if found is not None:
            yield at, found
        at = text.find(word, at + 1 if found is None else found.end())


def in_lines(text: str, word: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The matches of a pattern at the beginnings of the lines that contain a word."""
    at = text.find(word)
    while at >= 0:
        found = pattern.match(text, text.rfind("\n", 0, at) + 1)
        if found is not None:
            yield found
        end = text.find("\n", at)
        at = text.find(word, end) if end >= 0 else -1


def is_in_name(text: str, at: int) -> bool:
    """Whether the character before a place may be of the same name."""
    before = text[at - 1 : at] if at else ""
    return before.isalnum() or before == "_"


_BRACKETS = re.compile(r"[()\[\]{}]")


def closing_bracket(text: str, start: int, limit: int) -> int | None:
    """Where the bracket is closed that is opened before ``start``; None if not within ``limit`` characters.

    Brackets in strings count, too: it is for screens.
    """
    depth = 1
    for bracket in _BRACKETS.finditer(text, start, start + limit):
        depth += 1 if bracket.group() in "([{" else -1
        if depth == 0:
            return bracket.start()
    return None


_PARTS = re.compile(r"[,()\[\]{}]")


def arguments(text: str, start: int, limit: int) -> list[str] | None:
    """What the commas separate between ``start``, behind an opened bracket, and where that bracket is closed.

    None if it is not within ``limit`` characters. Brackets and commas in strings count, too: it is for screens.
    """
    found: list[str] = []
    depth, begin = 0, start
    for part in _PARTS.finditer(text, start, start + limit):
        mark = part[0]
        if mark in "([{":
            depth += 1
        elif mark != ",":
            depth -= 1
        if depth < 0 or (mark == "," and depth == 0):
            found.append(text[begin : part.start()].strip())
            begin = part.end()
        if depth < 0:
            return found if found[-1] else found[:-1]
    return None
