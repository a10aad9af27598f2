"""Where the nodes of Python's own syntax tree are in a text, as libcst counts."""

from __future__ import annotations

import ast
import re
from array import array
from collections.abc import Sequence
from typing import Any

import libcst as cst

#: What may be between two tokens.
BLANKS = re.compile(r"(?:[ \t\f]|\\?(?:\r\n|\r|\n)|#[^\r\n]*)*")
ROW_END = re.compile(r"\r\n|\r|\n")


class AstPlaces:
    """The offsets of nodes in one text; with `spans`, they are stored by the `id` of the node that is made of each."""

    def __init__(self, text: str, spans: dict[int, tuple[int, int]] | None) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in ROW_END.finditer(text))]
        self._plain = text.isascii()
        self._spans = spans
        self._indent: str | None = None
        #: by row, which is not ASCII, the column of the character to which each byte belongs; for other rows empty
        self._columns: dict[int, Sequence[int]] = {}

    def _offset(self, row: int, column: int) -> int:
        """The offset of a place as Python's tree gives it: row from 1, column in bytes of UTF-8."""
        start = self._starts[row - 1]
        if self._plain or not column:
            return start + column
        columns = self._columns.get(row)
        if columns is None:
            line = self._text[start : self._starts[row] if row < len(self._starts) else len(self._text)]
            columns = self._columns[row] = () if line.isascii() else _columns(line)
        return start + (columns[column] if columns else column)

    def _start(self, node: Any) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: Any) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)

    def _code(self, node: Any) -> str:
        return self._text[self._start(node) : self._end(node)]

    def _skip(self, offset: int) -> int:
        """Where the next token at an offset or after it begins."""
        match = BLANKS.match(self._text, offset)
        return match.end() if match else offset

    def _note(self, node: object, source: Any) -> None:
        """Store where a node is. libcst leaves out the parentheses of tuples and generators, Python includes them."""
        assert self._spans is not None
        start, end = self._start(source), self._end(source)
        if type(source) is ast.GeneratorExp:
            comprehension = source.generators[-1]
            last = comprehension.ifs[-1] if comprehension.ifs else comprehension.iter
            start, end = self._inner(start, end, last)
        elif type(source) is ast.Tuple and (not source.elts or self._in_parentheses(source)):
            if not source.elts:
                return
            start, end = self._inner(start, end, source.elts[-1])
        self._spans[id(node)] = (start, end)

    def _note_last(self, name: cst.Name, source: ast.Attribute) -> None:
        """Store where the name at the end of an attribute is, which Python's tree does not tell."""
        assert self._spans is not None
        end = self._end(source)
        start = end - len(name.value)
        if self._text[start:end] == name.value:
            self._spans[id(name)] = (start, end)

    def _note_arguments(self, made: Sequence[cst.Arg], call: ast.Call) -> None:
        """Store where the arguments of a call are, except for those in parentheses of their own."""
        assert self._spans is not None
        behind = self._end(call.func)
        items: list[Any] = sorted((*call.args, *call.keywords), key=self._start)
        for index, (argument, item) in enumerate(zip(made, items, strict=True)):
            start, end = self._start(item), self._end(item)
            if self._text[behind:start].count("(") == (index == 0) and type(item) is not ast.GeneratorExp:
                self._spans[id(argument)] = (start, end)
            behind = end

    def _inner(self, start: int, end: int, last: ast.expr) -> tuple[int, int]:
        """The offsets of what is in the parentheses from `start` to `end`, which ends with a node."""
        behind = self._end(last)
        offset = self._skip(behind)
        while offset < end - 1:  # closing parentheses, and a comma
            behind = offset + 1
            offset = self._skip(behind)
        return self._skip(start + 1), behind

    def _in_parentheses(self, node: ast.Tuple) -> bool:
        """Whether a tuple with elements has parentheses of its own."""
        first = node.elts[0]
        between = self._text[self._start(node) : self._start(first)]
        opened = re.sub(r"#[^\r\n]*", "", between).count("(")
        closed, offset = 0, self._skip(self._end(first))
        while closed < opened and self._text.startswith(")", offset):
            closed, offset = closed + 1, self._skip(offset + 1)
        return closed < opened


def _columns(line: str) -> Sequence[int]:
    """For each byte of a line in UTF-8, and for its end, the column of its character."""
    found = array("I")
    for column, character in enumerate(line):
        found.extend([column] * len(character.encode("utf-8", "surrogatepass")))
    found.append(len(line))
    return found
