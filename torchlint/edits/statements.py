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
    """Put ``line`` on a row of its own, as indented as ``statement``, after it, its row and its comment."""
    import libcst as cst

    start = module.span(statement)[0]
    indent = module.text[module.line_start(start) : start]
    if indent.strip():
        return None
    row = module.tree.parent(statement)
    last = row.body[-1] if isinstance(row, cst.SimpleStatementLine) else statement
    end = end_of_row(module, statement_end(module, last))
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
    unit = module.root.default_indent
    if unit + indent != indent + unit:  # a block with tabs in a file with blanks
        unit = indent
    edits = [Edit(begin, begin, f"{indent}{header}{newline_of(module)}{unit}")]
    row = module.row_at(first) + 1
    while row <= module.row_at(max(first, last - 1)):
        start = module.row_start(row)
        line = module.text[start : end_of_row(module, start)]
        if line.strip() and row not in inside:
            edits.append(Edit(start, start, unit))
        row += 1
    return tuple(edits)


def statement_of_call(module: Module, call: cst.CSTNode) -> cst.Expr | None:
    """The statement that consists of ``call`` alone; None where the call is a part of its statement."""
    import libcst as cst

    statement = module.tree.parent(call)
    return statement if isinstance(statement, cst.Expr) else None


def delete_statement(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a small statement, or its row if it is alone there; None if it has a comment or is all of its block."""
    block, ends = _block_of(module, statement)
    return _delete(module, statement, statement, block, ends) if _has_more(ends) else None


def delete_with_block(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a small statement, and the ``if`` or ``for`` that does nothing else; None where that cannot be."""
    import libcst as cst

    whole = statement
    while True:
        block, ends = _block_of(module, whole)
        if _has_more(ends) or block is None or isinstance(block, cst.Module):
            break
        above = module.tree.parent(block)
        if above is None or not _only_runs_its_body(module, above):
            return None
        whole = above
    return _delete(module, whole, statement, block, ends)


def _has_more(ends: Sequence[cst.CSTNode]) -> bool:
    """Whether a block, whose first and last statement are given, has more than one statement."""
    return len(ends) > 1 and ends[0] is not ends[-1]


def _block_of(module: Module, statement: cst.CSTNode) -> tuple[cst.CSTNode | None, list[cst.CSTNode]]:
    """The block that contains ``statement``, and its first and last statement; those that share a row count singly."""
    import libcst as cst

    above = module.tree.parent(statement)
    block = module.tree.parent(above) if isinstance(above, cst.SimpleStatementLine) else above
    if not isinstance(block, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)):
        return None, []
    ends: list[cst.CSTNode] = []
    for row in (*block.body[:1], *block.body[-1:]):
        ends.extend(row.body if isinstance(row, cst.SimpleStatementLine) else (row,))
    return block, ends


def _only_runs_its_body(module: Module, statement: cst.CSTNode) -> bool:
    """Whether an ``if`` or ``for`` changes nothing but what its body changes."""
    import libcst as cst

    from torchlint.model.program.effects import only_computes

    if isinstance(statement, cst.If):
        is_elif = isinstance(module.tree.parent(statement), cst.If)
        return statement.orelse is None and not is_elif and only_computes(module, statement.test)
    if not isinstance(statement, cst.For) or statement.orelse is not None or statement.asynchronous is not None:
        return False
    names = module.tree.nodes_in(statement.target)
    if not all(isinstance(node, (cst.Name, cst.Tuple, cst.List, cst.Element)) for node in names):
        return False
    bound = {node.value for node in names if isinstance(node, cst.Name)}
    return only_computes(module, statement.iter) and not any(
        binding.node is statement
        for name in bound
        for use in module.tree.names.get(name, [])
        if not module.tree.within(use, statement)
        for binding in module.values.reaching.of(use)
    )


def _delete(
    module: Module, whole: cst.CSTNode, statement: cst.CSTNode, block: cst.CSTNode | None, ends: Sequence[cst.CSTNode]
) -> Edits | None:
    """Delete ``whole``, a statement of ``block``, which begins and ends with ``ends``; ``statement`` ends ``whole``."""
    import libcst as cst

    start, end = module.span(whole)[0], module.span(statement)[1]
    if block is None or "#" in module.text[start:end]:
        return None
    row = module.tree.parent(whole)
    if isinstance(row, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and len(row.body) > 1:
        edited = _cut_from_row(module, whole, row.body)
    else:
        begin, stop = module.line_start(start), end_of_row(module, end)
        alone = not module.text[begin:start].strip() and module.text[end:stop].strip() in ("", ";")
        edited = Edit(begin, start_of_next_row(module, end), "") if alone else None
    if edited is None:
        return None
    if not _has_more(ends) or isinstance(block, cst.Module):
        return (edited,)
    # A block needs a statement: an empty edit keeps one from being deleted in the same pass.
    kept = module.span(ends[0] if whole is ends[-1] else ends[-1])[0]
    return edited, Edit(kept, kept, "")


def _cut_from_row(module: Module, part: cst.CSTNode, row: Sequence[cst.CSTNode]) -> Edit | None:
    """Delete one of several small statements of a row, with one semicolon."""
    position = next(index for index, item in enumerate(row) if item is part)
    start, end = module.span(part)
    if position + 1 < len(row):
        next_start = module.span(row[position + 1])[0]
        between, edited = module.text[end:next_start], Edit(start, next_start, "")
    else:
        previous_end = module.span(row[position - 1])[1]
        between, edited = module.text[previous_end:start], Edit(previous_end, end, "")
    return edited if between.strip() == ";" else None


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
