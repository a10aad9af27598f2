"""Whether the sketch of a file shows a softmax between two matrix products, of which nothing else is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rule.bindings import FUNCTIONS
from torchlint.rule.sketch import Sketch, called_name, dotted_name

#: Methods that give the same numbers in another format.
SAME = frozenset("to type type_as float half bfloat16 double contiguous clone".split())
_SCALING = frozenset("masked_fill masked_fill_ mul div mul_ div_".split())
_PRODUCTS = frozenset({"matmul", "bmm", "einsum"})
#: Attributes of the weights that may be read, and methods that may swap their dimensions.
_OTHERS = frozenset({"dtype", "shape", "device", "transpose", "permute"})


def may_attend(sketch: Sketch) -> bool:
    """Whether a softmax is of a matrix product that is only scaled and masked, and its result is only multiplied."""
    for statement in sketch.containing("oftmax"):
        for call in sketch.calls(statement):
            if any(_may_be_product(sketch, scores, statement) for scores in _scores(call)) and not _is_kept(
                sketch, call, statement
            ):
                return True
    return False


def _scores(call: ast.Call) -> Iterator[ast.expr]:
    """What a call may take the softmax of."""
    if "softmax" in (dotted_name(call.func) or called_name(call)).lower():
        yield from call.args[:1]
        if isinstance(call.func, ast.Attribute) and call.func.attr == "softmax":
            yield call.func.value


def _may_be_product(sketch: Sketch, node: ast.expr, at: ast.stmt) -> bool:
    """Whether an expression may come from a matrix product by scaling and masking, as it is written."""
    around = [above for above in sketch.around(at) if isinstance(above, FUNCTIONS)]
    body = set(sketch.within(around[-1])) if around else None
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                return True
            waiting += [node.left, node.right]
        elif isinstance(node, ast.Call):
            if sketch.may_be(node.func, _PRODUCTS):
                return True
            if isinstance(node.func, ast.Attribute) and node.func.attr in SAME | _SCALING:
                waiting.append(node.func.value)
        elif isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            waiting += sketch.values(node.id, body)
    return False


def _is_kept(sketch: Sketch, weights: ast.expr, at: ast.stmt) -> bool:
    """Whether the weights are certainly used other than in dropout and products: returned, stored, passed on."""
    if not isinstance(at, (ast.Assign, ast.Return, ast.Expr)):
        return False
    parents = {child: node for node in ast.walk(at) for child in ast.iter_child_nodes(node)}
    node: ast.AST = weights
    while True:
        above = parents[node]
        if isinstance(above, ast.Attribute):
            call = parents[above]
            is_called = isinstance(call, ast.Call) and call.func is above
            if not is_called or above.attr not in SAME:
                return above.attr not in _PRODUCTS | _OTHERS
            node = call
        elif isinstance(above, ast.Call) and "drop" in ast.unparse(above.func).rpartition(".")[2].lower():
            node = above
        else:
            break
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        return _is_name_kept(sketch, above.targets[0].id, above)
    if isinstance(above, ast.BinOp):
        return not isinstance(above.op, ast.MatMult)
    listed = isinstance(above, (ast.Tuple, ast.List))
    call = parents[above] if listed else above
    return not (isinstance(call, ast.Call) and sketch.may_be(call.func, _PRODUCTS))


def _is_name_kept(sketch: Sketch, name: str, assigned: ast.stmt) -> bool:
    """Whether the weights are used so under a name, in the statements behind the one that assigns them."""
    for statement in _behind(sketch, assigned):
        if isinstance(statement, FUNCTIONS):
            continue
        for inner in sketch.within(statement):
            uses = [node for node in sketch.nodes(inner) if isinstance(node, ast.Name) and node.id == name]
            targets = inner.targets if isinstance(inner, ast.Assign) else []
            stored = [use for use in uses if isinstance(use.ctx, ast.Store)]
            if any(use not in targets for use in stored):
                return False  # as the variable of a comprehension
            if any(_is_kept(sketch, use, inner) for use in uses if use not in stored):
                return True
            if stored:
                return False  # what follows may be another value
    return False


def _behind(sketch: Sketch, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements that run after a statement in its function, by the blocks that it is in."""
    for above in sketch.around(statement):
        for block in (getattr(above, "body", []), getattr(above, "orelse", []), getattr(above, "finalbody", [])):
            if statement in block:
                yield from block[block.index(statement) + 1 :]
        if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return
        statement = above
