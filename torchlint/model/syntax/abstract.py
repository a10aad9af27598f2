"""Methods that are there to be overridden."""

from __future__ import annotations

import libcst as cst


def is_abstract(method: cst.FunctionDef) -> bool:
    """Whether ``method`` does nothing, or raises an error."""
    if not isinstance(method.body, cst.IndentedBlock):
        return True
    for line in method.body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return False
        for statement in line.body:
            if isinstance(statement, (cst.Pass, cst.Raise)):
                continue
            if isinstance(statement, cst.Expr) and isinstance(
                statement.value, (cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis)
            ):
                continue
            return False
    return True
