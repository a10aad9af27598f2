"""Whether the sketch of a file shows a loop that may write a tensor row by row; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torchlint.rule.sketch import Sketch, dotted_name

from ._row_words import FEW, FILLING, ONCE, SCATTERING


def may_write_rows(sketch: Sketch) -> bool:
    """Whether the body of a loop only assigns to items that the variables of the loop name, and does not read them."""
    loops = (node for node in sketch.containing("for ") if isinstance(node, (ast.For, ast.AsyncFor)))
    return any(_may_write_rows(sketch, loop) for loop in loops)


def _may_write_rows(sketch: Sketch, loop: ast.For | ast.AsyncFor) -> bool:
    function = sketch.function_of(loop)
    if loop.orelse or (not any(sketch.loops_around(loop)) if function is None else ONCE.search(function.name)):
        return False
    bound = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    if isinstance(loop.iter, (ast.List, ast.Tuple)) or any(map(FEW.search, bound)):
        return False
    body = loop.body
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        body = body[0].body
    if any(map(_scatters, body)):
        return True
    written: set[str | None] = set()
    read: set[str | None] = set()
    for statement in body:
        name = _name_of(statement)
        if name is not None and not written:
            bound.add(name)
            continue
        if isinstance(statement, ast.AugAssign):
            target: ast.expr = statement.target
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        else:
            return False
        if not isinstance(target, ast.Subscript) or not _is_row_by_row(statement, target, bound):
            return False
        written.add(dotted_name(target.value))
        read.update(dotted_name(part) for part in _read(target.slice, statement.value, but=target))
    return bool(written) and None not in written and read.isdisjoint(written)


def _read(*nodes: ast.expr, but: ast.Subscript) -> Iterator[ast.AST]:
    """What expressions consist of, but for what is only asked for the item that is assigned to."""
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Subscript) and _is_same_item(node, but):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _is_same_item(node: ast.Subscript, other: ast.Subscript) -> bool:
    """Whether two expressions are the same item: ``rows[i]``, ``rows[i, [1, 3]]``."""
    name = dotted_name(node.value)
    return name is not None and name == dotted_name(other.value) and ast.dump(node.slice) == ast.dump(other.slice)


def _name_of(statement: ast.stmt) -> str | None:
    """``end`` of ``end = start + size``."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _scatters(statement: ast.stmt) -> bool:
    """``target[i].index_add_(0, index[i], source[i])``, ``mask[i, :length].fill_(1)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in SCATTERING | FILLING and isinstance(call.func.value, ast.Subscript)


def _is_row_by_row(statement: ast.Assign | ast.AugAssign, target: ast.Subscript, bound: Collection[str]) -> bool:
    """``counts[t, p] += 1``, ``mask[i, :length] = 1``, ``rows[i] = f(others[i])``."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add) and _is_number(statement.value)
    if not any(isinstance(item, ast.Name) and item.id in bound for item in _indices(target)):
        return False
    if _is_number(statement.value):
        bounds = [node for item in _indices(target)[1:] if isinstance(item, ast.Slice) for node in ast.walk(item)]
        return any(isinstance(node, ast.Name) and node.id in bound for node in bounds)
    parts = list(ast.walk(statement.value))
    if any(isinstance(part, (ast.Lambda, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.JoinedStr)) for part in parts):
        return False
    rows = [part for part in parts if isinstance(part, ast.Subscript)]
    if isinstance(statement.value, (ast.Subscript, ast.Name, ast.Attribute)):
        return True  # a window of a row, the same items of another tensor, or the same value in all rows
    return bool(rows) and all(_is_row(part, bound) for part in rows)


def _is_row(node: ast.Subscript, bound: Collection[str]) -> bool:
    """Whether the first index, or one behind full slices, is a variable of the loop."""
    indices = (item for item in _indices(node) if not isinstance(item, ast.Slice) or item.lower or item.upper)
    first = next(indices, None)
    return isinstance(first, ast.Name) and first.id in bound


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "float"
    if isinstance(node, (ast.Name, ast.Attribute)):
        return (node.attr if isinstance(node, ast.Attribute) else node.id) == "inf"
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
