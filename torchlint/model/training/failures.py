"""Code that runs on the way to an exception: at most once, so that its speed does not matter."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.exits import ends_with

_BRANCHES = (cst.If, cst.Else, cst.ExceptHandler)


def failing_spans(forest: Forest, root: cst.CSTNode) -> Iterator[tuple[int, int]]:
    """Offsets ``[start, end)`` of code of a file, given by its root, that ends in an error.

    That is a ``raise`` of an error with the statements before it in its branch, and the message of an ``assert``.
    """
    tree = forest.tree
    for statement in tree.of_kind(cst.Raise):
        if tree.root_of(statement) is root and _raises_error(statement):
            yield _start_of_branch(forest, statement), forest.span(statement)[1]
    for check in tree.of_kind(cst.Assert):
        if check.msg is not None and tree.root_of(check) is root:
            yield forest.span(check.msg)


def _raises_error(statement: cst.Raise) -> bool:
    """Whether it raises an error, and not a signal such as ``SystemExit`` or ``StopIteration``."""
    if statement.exc is None:
        return True
    raised = statement.exc.func if isinstance(statement.exc, cst.Call) else statement.exc
    return last_name(raised).endswith(("Error", "Exception"))


def _start_of_branch(forest: Forest, statement: cst.Raise) -> int:
    """Where the branch begins that ``statement`` ends, or else the statement itself."""
    line = forest.tree.parent(statement)
    block = forest.tree.parent(line) if line is not None else None
    is_branch = block is not None and isinstance(forest.tree.parent(block), _BRANCHES)
    if isinstance(block, cst.IndentedBlock) and is_branch and ends_with(block, cst.Raise):
        first = block.body[0]
        return forest.span(first.body[0] if isinstance(first, cst.SimpleStatementLine) else first)[0]
    return forest.span(statement)[0]
