"""Rows, newlines and indentation of a file, and the replacement of one node."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: The edits of one change.
Edits = tuple[Edit, ...]
_WORD = re.compile(r"\w")
# What may be between two tokens: blanks, comments, and the ends of rows.
_BLANKS = re.compile(r"(?:[ \t\f]|\\?(?:\r\n|\r|\n)|#[^\r\n]*)*")


def replace(module: Module, node: cst.CSTNode, text: str) -> Edits:
    """Put ``text`` in the place of ``node`` (parentheses around it stay)."""
    start, end = module.span(node)
    before, after = blanks_around(module, start, end, text)
    return (Edit(start, end, before + text + after),)


def blanks_around(module: Module, start: int, end: int, text: str) -> tuple[str, str]:
    """What keeps ``text`` apart from the words that it would touch in place of ``[start, end)``: ``with(a).b():``."""
    before = " " if _WORD.match(text) and _WORD.match(module.text[start - 1 : start]) else ""
    after = " " if _WORD.match(text[-1:]) and _WORD.match(module.text, end) else ""
    return before, after


def unbracketed(text: str) -> str:
    """An expression that was inside brackets, where it may take several rows, as it can be written outside of them."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"({text})"
    return text if len(body) == 1 else f"({text})"


def insert_above_comments(module: Module, statement: cst.CSTNode, *lines: str) -> Edits | None:
    """Put each of ``lines`` on a row of its own before ``statement`` and the comments directly above it."""
    import libcst as cst

    start = module.span(statement)[0]
    row = module.row_at(start)
    indent = module.text[module.row_start(row) : start]
    if indent.strip():
        return None
    if isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        for line in reversed(module.full(statement).leading_lines):
            if line.comment is None:
                break
            row -= 1
    begin = module.row_start(row)
    return (Edit(begin, begin, "".join(f"{indent}{line}{newline_of(module)}" for line in lines)),)


def newline_of(module: Module) -> str:
    """The newline the file uses (that of its first row)."""
    match = re.search(r"\r\n|\n|\r", module.own_text)
    return match.group() if match else "\n"


def indentation_at(module: Module, offset: int) -> str:
    """The white space at the beginning of the row of ``offset``."""
    begin = module.line_start(offset)
    match = re.compile(r"[ \t\f]*").match(module.text, begin)
    return match.group() if match else ""


def statement_end(module: Module, statement: cst.CSTNode) -> int:
    """The offset behind the last character of ``statement``, without a comment or newline that follows."""
    import libcst as cst

    end = module.span(statement)[1]
    if isinstance(statement, cst.BaseCompoundStatement):
        last = module.tree.nodes[module.tree.last(statement)]
        end = module.span(module.tree.statement_of(last))[1]
        end += (
            len(module.text[end : end_of_row(module, end)].split("#")[0].rstrip(" \t"))
            if ";" in module.text[end : end_of_row(module, end)].split("#")[0]
            else 0
        )
    return end


def end_of_row(module: Module, offset: int) -> int:
    """The offset of the newline that ends the row of ``offset``, or of the end of the text."""
    match = re.compile(r"[\r\n]").search(module.text, offset)
    return match.start() if match else len(module.text)


def start_of_next_row(module: Module, offset: int) -> int:
    """The offset of the first character of the row behind that of ``offset``."""
    match = re.compile(r"\r\n|\n|\r").search(module.text, offset)
    return match.end() if match else len(module.text)


def end_with_parentheses(module: Module, node: cst.BaseExpression) -> int:
    """The offset behind ``node`` and the parentheses around it."""
    end = module.span(node)[1]
    for _ in module.full(node).rpar:
        end = next_token(module, end) + 1
    return end


def next_token(module: Module, offset: int) -> int:
    """The offset of the first token at ``offset`` or after it: not a blank, comment or end of a row."""
    match = _BLANKS.match(module.text, offset)
    return match.end() if match else offset
