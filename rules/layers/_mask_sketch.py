"""Whether the sketch of a file shows an attention with a mask that may be causal; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.bindings import BoundKind
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import dotted_name

ATTENTION = "scaled_dot_product_attention"
#: The position of `attn_mask`; of the layer, queries, keys and values are before other arguments.
POSITION = 3
_MATRICES = frozenset({"ones", "zeros", "empty", "full", "tril", "triu", "logical_not"})


def may_be_causal(sketch: Sketch) -> bool:
    """Whether a call is given a mask that may come from a square matrix."""
    for statement in sketch.containing(ATTENTION, "attn_mask"):
        for call in sketch.calls(statement):
            mask = _mask(sketch, call)
            if mask is not None and _may_be_square(sketch, mask, statement):
                return True
    return False


def _mask(sketch: Sketch, call: ast.Call) -> ast.expr | None:
    """The argument `attn_mask`, unless the call asks for a causal mask by itself."""
    keywords = {item.arg: item.value for item in call.keywords}
    given = keywords.get("attn_mask")
    if sketch.may_be(call.func, {ATTENTION}):
        positional = call.args[POSITION] if len(call.args) > POSITION else None
        return None if _is(keywords.get("is_causal"), True) else given or positional
    return given if _is(keywords.get("need_weights"), False) and "is_causal" not in keywords else None


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _may_be_square(sketch: Sketch, mask: ast.expr, at: ast.stmt) -> bool:
    """Whether a mask may be a square matrix, or a part of one, as far as the file shows."""
    seen: set[str] = set()
    waiting = [(mask, at)]
    while waiting:
        node, statement = waiting.pop()
        if isinstance(node, ast.Attribute):
            return True
        if isinstance(node, ast.Name):
            if node.id in seen:
                continue
            seen.add(node.id)
            bound = sketch.bindings(node.id, statement)
            if not bound or any(item.kind is not BoundKind.VALUE for item in bound):
                return True  # a parameter, or of another file
            waiting += [(item.value, item.statement) for item in bound if item.value is not None]
        elif isinstance(node, ast.Subscript):
            waiting.append((node.value, statement))
        elif isinstance(node, ast.UnaryOp):
            waiting.append((node.operand, statement))
        elif isinstance(node, (ast.BinOp, ast.Compare)):
            waiting.append((node.left, statement))
        elif isinstance(node, ast.Call) and not _is_other_function(node):
            return True
    return False


def _is_other_function(call: ast.Call) -> bool:
    """Whether a call is of a function of torch that makes no square matrix."""
    owner, _, name = (dotted_name(call.func) or "").rpartition(".")
    return owner == "torch" and name not in _MATRICES
