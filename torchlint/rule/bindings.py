"""What statements of Python's own syntax tree bind; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class BoundKind(Enum):
    """How a statement binds a name."""

    VALUE = "value"
    PART = "part"  #: a part of a value, by unpacking
    LOOP = "loop"  #: an item, or a part of it, of what a loop iterates over
    PARAMETER = "parameter"
    OTHER = "other"


class Bound(NamedTuple):
    """What binds a name."""

    kind: BoundKind
    statement: ast.stmt  #: of a parameter, its function
    function: Function | None  #: the one in which the name is bound
    value: ast.expr | None = None


#: The most frequent statements that bind nothing.
_NO_BINDINGS = (ast.Expr, ast.If, ast.Return, ast.Raise)


def bound_by(node: ast.stmt, home: Function | None) -> Iterator[tuple[str, Bound]]:
    """The names that a statement of a function binds, each with what it is bound to; variables of handlers left out."""
    if isinstance(node, _NO_BINDINGS):
        return
    for target, kind, value in _targets(node):
        for name in _names_in(target):
            yield name, Bound(kind, node, home, value)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], Bound(BoundKind.OTHER, node, home)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, Bound(BoundKind.OTHER, node, home)
        if not isinstance(node, ast.ClassDef):
            for parameter in _parameters(node):
                yield parameter.arg, Bound(BoundKind.PARAMETER, node, node)


def _targets(node: ast.stmt) -> Iterator[tuple[ast.expr, BoundKind, ast.expr | None]]:
    """The targets of a statement, each with what it gets."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield (
                target,
                BoundKind.VALUE if isinstance(target, (ast.Name, ast.Attribute)) else BoundKind.PART,
                node.value,
            )
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.target, BoundKind.LOOP, node.iter
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield item.optional_vars, BoundKind.OTHER, None


def _parameters(function: Function) -> Iterator[ast.arg]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return filter(None, every)


def _names_in(target: ast.expr) -> Iterator[str]:
    """The names that an assignment to a target binds: ``x``, ``.x`` of any object's attribute."""
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"
        elif isinstance(node, (ast.Tuple, ast.List)):
            waiting += node.elts
        elif isinstance(node, ast.Starred):
            waiting.append(node.value)
