"""Where the keys and values of a TOML document are: `tomllib` does not say."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

#: The keys to a value, with an index for each list on the way.
Path = tuple[str | int, ...]
#: Offsets of the first character, and behind the last one.
Span = tuple[int, int]

_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r]+ | \#[^\n]*)
  | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
  | (?P<newline>\n)
  | (?P<punctuation>[\[\]{}=,.])
  | (?P<word>[^\s\[\]{}=,.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def positions(text: str) -> tuple[Mapping[Path, Span], Mapping[Path, Span]]:
    """The spans of all keys and of all values in a valid document; some of those in another one."""
    parser = _Parser(text)
    with contextlib.suppress(IndexError):  # the end, in the middle of something
        parser.run()
    return parser.keys, parser.values


class _Parser:
    """Reads tokens; `keys` and `values` are what it has found."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}

    def run(self) -> None:
        table: Path = ()
        while self._next < len(self._tokens):
            text = self._tokens[self._next][0]
            if text == "\n":
                self._next += 1
            elif text == "[":
                table = self._header()
                self._skip_row()
            else:
                self._pair(table)
                self._skip_row()

    def _header(self) -> Path:
        while self._tokens[self._next][0] == "[":  # two for an array of tables, whose tables are not distinguished
            self._next += 1
        return self._key(())

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        if self._tokens[self._next][0] == "=":
            self._next += 1
            self._value(path)

    def _key(self, table: Path) -> Path:
        """The path of a key, with dots or without."""
        path = table
        while True:
            text, start, end = self._tokens[self._next]
            if text in "[]{}=,\n":
                return path
            if text != ".":
                path = (*path, _unquoted(text))
                self.keys.setdefault(path, (start, end))
            self._next += 1

    def _value(self, path: Path) -> None:
        text, start, end = self._tokens[self._next]
        if text == "[":
            end = self._items(path)
        elif text == "{":
            end = self._inline_table(path)
        else:
            begin = self._next
            while self._next < len(self._tokens) and self._tokens[self._next][0] not in ",]}\n":
                end = self._tokens[self._next][2]  # a number or a date may have several tokens
                self._next += 1
            if self._next == begin:
                raise IndexError
        self.values[path] = start, end

    def _items(self, path: Path) -> int:
        self._next += 1
        index = 0
        while (text := self._tokens[self._next][0]) != "]":
            if text in ",\n":
                self._next += 1
            else:
                self._value((*path, index))
                index += 1
        self._next += 1
        return self._tokens[self._next - 1][2]

    def _inline_table(self, path: Path) -> int:
        self._next += 1
        while (text := self._tokens[self._next][0]) != "}":
            if text in ",\n":
                self._next += 1
            else:
                begin = self._next
                self._pair(path)
                if self._next == begin:
                    raise IndexError
        self._next += 1
        return self._tokens[self._next - 1][2]

    def _skip_row(self) -> None:
        while self._next < len(self._tokens) and self._tokens[self._next][0] != "\n":
            self._next += 1


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:  # a string that does not end
            return
        if match.lastgroup != "blank":
            yield match[0], place, match.end()
        place = match.end()


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    if text[0] != '"':
        return text
    return _ESCAPE.sub(_character, text[1:-1])


def _character(match: re.Match[str]) -> str:
    number = match[1] or match[2]
    return chr(int(number, 16)) if number else _ESCAPED.get(match[3], match[3])


def excerpt(text: str, span: Span) -> str:
    """The line of a span with a caret below each of its characters."""
    row, column = position(text, span[0])
    line = text.splitlines()[row - 1].expandtabs(1) if text.strip("\r\n") else ""
    length = max(1, min(span[1] - span[0], len(line) - column + 1))
    margin = " " * len(str(row))
    return f"{margin} |\n{row} | {line}\n{margin} | {' ' * (column - 1)}{'^' * length}"


def position(text: str, offset: int) -> tuple[int, int]:
    """The row and column of an offset, from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
