"""Edits of statements: inserted lines, decorators, blocks that are indented, statements that are deleted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.edits.calls import remove_method_call
from torchlint.edits.text import Edits, end_of_row, indentation_at, newline_of, start_of_next_row, statement_end
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


def insert_before(module: Module, statement: cst.CSTNode, *lines: str) -> Edits | None:
    """Put each of ``lines`` on a row of its own before ``statement``, at its indentation."""
    start = module.span(statement)[0]
    begin = module.line_start(start)
    indent = module.text[begin:start]
    if indent.strip():
        return None
    return (Edit(begin, begin, "".join(f"{indent}{line}{newline_of(module)}" for line in lines)),)


def insert_after(module: Module, statement: cst.CSTNode, line: str) -> Edits | None:
    """Put ``line`` on a row of its own after ``statement`` and its comment, at its indentation."""
    start = module.span(statement)[0]
    indent = module.text[module.line_start(start) : start]
    if indent.strip():
        return None
    end = end_of_row(module, statement_end(module, statement))
    return (Edit(end, end, f"{newline_of(module)}{indent}{line}"),)


def wrap_in_with(module: Module, statements: Sequence[cst.CSTNode], header: str) -> Edits | None:
    """Put neighbouring statements of one block under ``with header:``, re-indenting exactly their rows."""
    return indent_under(module, statements, f"with {header}:")


def indent_under(module: Module, statements: Sequence[cst.CSTNode], header: str) -> Edits | None:
    """Put neighbouring statements of one block under the line ``header``, re-indenting exactly their rows."""
    first, last = module.span(statements[0])[0], statement_end(module, statements[-1])
    begin = module.line_start(first)
    indent = module.text[begin:first]
    if indent.strip() or module.text[last : end_of_row(module, last)].split("#")[0].strip():
        return None
    inside = _rows_inside_strings(module, statements)
    edits = [Edit(begin, begin, f"{indent}{header}{newline_of(module)}{module.root.default_indent}")]
    row = module.row_at(first) + 1
    while row <= module.row_at(max(first, last - 1)):
        start = module.row_start(row)
        line = module.text[start : end_of_row(module, start)]
        if line.strip() and row not in inside:
            edits.append(Edit(start, start, module.root.default_indent))
        row += 1
    return tuple(edits)


def delete_statement(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a small statement with its row; None where it shares the row, holds a comment, or is all of its block."""
    import libcst as cst

    line = module.tree.parent(statement)
    block = module.tree.parent(line) if line is not None else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or block is None:
        return None
    if len(getattr(block, "body", ())) < 2:
        return None
    start, end = module.span(statement)
    begin, stop = module.line_start(start), end_of_row(module, end)
    if module.text[end:stop].strip() or "#" in module.text[start:end]:
        return None
    return (Edit(begin, start_of_next_row(module, end), ""),)


def delete_with_block(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a statement, and the ``if`` or ``for`` that holds nothing else; None where that cannot be."""
    import libcst as cst

    found: cst.CSTNode = statement
    while True:
        line = module.tree.parent(found)
        block = module.tree.parent(line) if isinstance(line, cst.SimpleStatementLine) else line
        if isinstance(line, cst.SimpleStatementSuite):
            block = line
        if len(getattr(block, "body", ())) != 1 or isinstance(block, cst.Module) or block is None:
            break
        above = module.tree.parent(block)
        if not isinstance(above, (cst.If, cst.For)) or above.orelse is not None:
            return None
        if isinstance(module.tree.parent(above), cst.If):  # an elif
            return None
        found = above
    if found is statement:
        return delete_statement(module, statement)
    start, end = module.span(found)[0], statement_end(module, statement)
    begin, stop = module.line_start(start), end_of_row(module, end)
    if module.text[begin:start].strip() or module.text[end:stop].strip() or "#" in module.text[start:end]:
        return None
    return (Edit(begin, start_of_next_row(module, end), ""),)


def drop_method_call(module: Module, call: cst.Call) -> Edits | None:
    """Leave ``x`` of ``x.method(...)``; an assignment that would read ``x = x`` goes with it."""
    import libcst as cst

    func = call.func
    if not isinstance(func, cst.Attribute):
        return None
    statement = module.tree.parent(call)
    if isinstance(statement, cst.Assign) and [module.code(item.target) for item in statement.targets] == [
        module.code(func.value)
    ]:
        deleted = delete_statement(module, statement)
        if deleted is not None:
            return deleted
    return remove_method_call(module, call)


def decorate(module: Module, function: cst.FunctionDef, decorator: str) -> Edits | None:
    """Put ``@decorator`` directly above ``def``, below the decorators already there."""
    start = module.text.index("def", _definition_start(module, function))
    start = module.line_start(start)
    row = module.text[start : module.span(function)[1]]
    if not re.match(r"[ \t\f]*(async[ \t]+)?def\b", row):
        return None
    indent = indentation_at(module, start)
    return (Edit(start, start, f"{indent}@{decorator}{newline_of(module)}"),)


def remove_decorator(module: Module, decorator: cst.Decorator) -> Edits | None:
    """Delete a decorator with its rows; None where a comment would go with it."""
    start, end = module.span(decorator)
    begin, stop = module.line_start(start), end_of_row(module, module.span(decorator.decorator)[1])
    if module.text[begin:start].strip() or "#" in module.text[begin:stop]:
        return None
    return (Edit(begin, start_of_next_row(module, max(end - 1, stop)), ""),)


def _definition_start(module: Module, function: cst.FunctionDef) -> int:
    if function.decorators:
        return start_of_next_row(module, module.span(function.decorators[-1])[1] - 1)
    return module.span(function)[0]


def _rows_inside_strings(module: Module, statements: Sequence[cst.CSTNode]) -> set[int]:
    """Rows that begin inside a string: indenting them would change the string."""
    import libcst as cst

    rows: set[int] = set()
    for statement in statements:
        for node in module.tree.nodes_in(statement):
            if isinstance(node, (cst.SimpleString, cst.FormattedString)):
                start, end = module.span(node)
                rows.update(range(module.row_at(start) + 1, module.row_at(max(start, end - 1)) + 1))
    return rows
