"""Python's tree of an edited text: only the top-level statements that changed are parsed again."""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from torchlint.source.lexemes import line_starts
from torchlint.source.rows import first_row


def edited_tree(text: str, before: str, tree: ast.Module) -> ast.Module | None:
    """The tree of ``text``, with those statements of the tree of another text that are in rows without a change.

    None unless both have as many rows, and the rows in between can be parsed by themselves.
    """
    body = tree.body
    if text.count("\n") != before.count("\n") or "\r" in text or "\r" in before:
        return None
    begins = line_starts(text)
    first, last = _changed_rows(text, before, begins)
    starts = line_starts(before)

    def begin(statement: ast.stmt) -> int:
        return first_row(statement, before, starts)

    start, end = bisect_left(body, first, key=_last_row), bisect_right(body, last, key=begin)
    for index in (start, end):  # each statement must begin a row, behind the row in which the one before it ends
        if 0 < index < len(body) and (body[index].col_offset or begin(body[index]) <= _last_row(body[index - 1])):
            return None
    above = _last_row(body[start - 1]) if start else 0
    stop = begins[begin(body[end]) - 1] if end < len(body) else len(text)
    if text[: begins[above]].endswith("\\\n"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = ast.parse("\n" * above + text[begins[above] : stop])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ast.Module([*body[:start], *parsed.body, *body[end:]], [])


def _changed_rows(text: str, before: str, begins: Sequence[int]) -> tuple[int, int]:
    """The first and the last row, from 1, in which two texts differ, or that the difference borders on."""
    shorter = min(len(text), len(before))
    same = bisect_left(range(shorter), True, key=lambda length: text[: length + 1] != before[: length + 1])
    rest = range(shorter - same)
    behind = bisect_left(rest, True, key=lambda length: text[-1 - length :] != before[-1 - length :])
    return bisect_right(begins, same), bisect_right(begins, len(text) - behind)


def _last_row(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
