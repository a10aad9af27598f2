"""Whether the sketch of a file shows a call of two tensors that one boolean mask selects from; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.bindings import BoundKind
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import bare, called_name

from ._mask_words import COPYING, SHAPING

_ORDER = (ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE)
#: Methods that make a mask.
_COMPARING = frozenset("eq ne gt ge lt le bool isfinite isnan logical_and logical_or logical_not".split())
_DEPTH = 8


def may_select_for_loss(sketch: Sketch) -> bool:
    """Whether the first two arguments of a call may be indexed with the same mask."""
    indexed = sketch.containing("[")
    names = {
        target.id
        for statement in indexed
        if isinstance(statement, ast.Assign) and _mask_of(sketch, statement.value, statement) is not None
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    named = sketch.containing(*names) if names else []
    return any(
        _selects_both(sketch, call, statement)
        for statement in dict.fromkeys((*indexed, *named))
        for call in sketch.calls(statement)
        if len(call.args) + len(call.keywords) > 1
    )


def _selects_both(sketch: Sketch, call: ast.Call, at: ast.stmt) -> bool:
    masks = [_mask_of(sketch, item, at) for item in call.args[:2]]
    return len(masks) == 2 and None not in masks


def _mask_of(sketch: Sketch, node: ast.expr, at: ast.stmt) -> ast.expr | None:
    """The mask that an expression, or a name for one, is indexed with."""
    node = bare(node, COPYING)
    if isinstance(node, ast.Name):
        made = (item for item in sketch.bindings(node.id, at) if item.kind is BoundKind.VALUE)
        values = ((item.value, item.statement) for item in made if isinstance(item.value, (ast.Subscript, ast.Call)))
        return next((mask for value, where in values if (mask := _mask_of(sketch, value, where)) is not None), None)
    if not isinstance(node, ast.Subscript):
        return None
    index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    return index if _may_be_mask(sketch, index, at, _DEPTH) else None


def _may_be_mask(sketch: Sketch, node: ast.expr | None, at: ast.stmt, depth: int) -> bool:
    """Whether an index may be a boolean tensor."""
    if depth <= 0:
        return True
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], _ORDER)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    if isinstance(node, ast.BinOp):
        both = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.Mult))
        return both and all(_may_be_mask(sketch, item, at, depth - 1) for item in (node.left, node.right))
    if isinstance(node, ast.Call):
        if called_name(node) in SHAPING:
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            return _may_be_mask(sketch, inner, at, depth - 1)
        return sketch.may_be(node.func, _COMPARING)
    return isinstance(node, ast.Name) and any(
        item.kind is BoundKind.PARAMETER
        or (item.kind is BoundKind.VALUE and _may_be_mask(sketch, item.value, item.statement, depth - 1))
        for item in sketch.bindings(node.id, at)
    )
