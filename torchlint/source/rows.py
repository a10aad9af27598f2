"""The rows of statements in Python's own syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_DECORATOR = re.compile(r"[ \t\f]*@")


def first_row(statement: ast.stmt, text: str, starts: Sequence[int]) -> int:
    """The row, from 1, in which a statement of `text` begins: that of its first decorator's ``@``, if it has one.

    `starts` are the offsets of the rows. Python's tree has the place of the expression behind ``@``, which may be in a
    later row, in parentheses.
    """
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    row = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    while decorators and row > 1 and not _DECORATOR.match(text, starts[row - 1]):
        row -= 1
    return row
