"""Whether the sketch of a file shows a softmax between two matrix products, of which nothing else is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.rule.bindings import FUNCTIONS, LOOPS
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, dotted_name

#: What masks and factors of scores are called.
MASK = re.compile(r"mask|causal|\bpad", re.IGNORECASE)
SCALE = re.compile(
    r"(?<!logit_)scale|sqrt|\bd_?k\b|dim\b|\*\* ?\(? ?-|^\(?[\d./ *-]+\)?$|head_size|channels?\b|norm_fact"
)
#: What fills in the scores that a mask leaves out: `1e10 * (1 - mask)`.
_FILL = re.compile(r"-?[\d.]+(?:e\+?\d+)?\*\(1(?:\.0*)?-(.+)\)")
#: The largest score of each row, behind the name of the scores: `.amax(dim=-1, keepdim=True).detach()`.
_LARGEST = re.compile(r"\.(?:amax|max)\((?:dim=)?-1,(?:keepdim=)?True\)(?:\[0\]|\.values)?(?:\.detach\(\))?")
#: Methods that give the same numbers in another format.
SAME = frozenset("to type type_as float half bfloat16 double contiguous clone".split())
#: How many names scores and weights are followed through.
_STEPS = 50
_SCALING = frozenset("masked_fill masked_fill_ mul div mul_ div_".split())
_PRODUCTS = frozenset({"matmul", "bmm", "einsum"})
#: Attributes of the weights that may be read, and methods that may swap their dimensions.
_OTHERS = frozenset({"dtype", "shape", "device", "transpose", "permute"})


def may_attend(sketch: Sketch) -> bool:
    """Whether a softmax is of a matrix product that is only scaled and masked, and its result is only multiplied."""
    for statement in sketch.containing("oftmax"):
        if any(_may_be_attention(sketch, call, scores, statement) for call, scores in _softmaxes(sketch, statement)):
            return True
        for name in _layers(statement):
            for place in sketch.containing(f"{name}("):
                called = (call for call in sketch.calls(place) if dotted_name(call.func) == f"self.{name}")
                if any(_may_be_attention(sketch, call, call.args[0], place) for call in called if call.args):
                    return True
    return False


def _may_be_attention(sketch: Sketch, call: ast.Call, scores: ast.expr, statement: ast.stmt) -> bool:
    """Whether a softmax may be of a product, and its result only multiplied."""
    return _may_be_product(sketch, scores, statement, set()) and not _is_kept(sketch, call, statement)


def _softmaxes(sketch: Sketch, statement: ast.stmt) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls in a statement whose names say that they take a softmax, each with what it may be of."""
    return ((call, scores) for call in sketch.calls(statement) for scores in _scores(call))


def _layers(statement: ast.stmt) -> Iterator[str]:
    """``attend`` of ``self.attend = nn.Softmax(dim=-1)``."""
    made = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(made, ast.Call) and called_name(made) == "Softmax" and isinstance(statement, ast.Assign):
        names = map(dotted_name, statement.targets)
        yield from (name.removeprefix("self.") for name in names if name and "softmax" not in name.lower())


def _scores(call: ast.Call) -> Iterator[ast.expr]:
    """What a call may take the softmax of."""
    made = call.func if isinstance(call.func, ast.Call) else call  # `nn.Softmax(dim=-1)(scores)`
    if "softmax" in (dotted_name(made.func) or called_name(made)).lower():
        yield from call.args[:1]
        if isinstance(call.func, ast.Attribute) and call.func.attr == "softmax":
            yield call.func.value


def _may_be_product(sketch: Sketch, node: ast.expr, at: ast.stmt, seen: set[tuple[str, ast.stmt]]) -> bool:
    """Whether an expression may come from a matrix product by scaling and masking, as it is written."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            return True
        return any(_may_be_product(sketch, inner, at, seen) for inner in _scaled(node))
    if isinstance(node, ast.Call):
        if sketch.may_be(node.func, _PRODUCTS):
            return True
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in SAME | _SCALING
        return is_method and _may_be_product(sketch, node.func.value, at, seen)  # type: ignore[attr-defined]
    return isinstance(node, ast.Name) and _may_be_named(sketch, node, at, seen)


def fills(text: str, mask: str) -> bool:
    """Whether an expression, by its text, is a number where ``mask`` is zero: ``scores * mask - 1e10 * (1 - mask)``."""
    found = _FILL.fullmatch(text.replace(" ", ""))
    return found is not None and found[1] == mask.replace(" ", "")


def shifts(text: str, scores: str) -> bool:
    """Whether an expression, by its text, is the largest of each row of ``scores``: a softmax does not depend on it."""
    return text.startswith(scores) and _LARGEST.fullmatch(text[len(scores) :].replace(" ", "")) is not None


def _scaled(node: ast.BinOp) -> Iterator[ast.expr]:
    """The scores of ``scores * scale``, ``scores / sqrt(d)`` and ``scores + mask``."""
    right = ast.unparse(node.right)
    if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.left, ast.BinOp):
        if isinstance(node.left.op, ast.Mult) and fills(right, ast.unparse(node.left.right)):
            yield node.left.left
    if isinstance(node.op, (ast.Mult, ast.Div)) and SCALE.search(right):
        yield node.left
    elif isinstance(node.op, ast.Mult) and SCALE.search(ast.unparse(node.left)):
        yield node.right
    elif _masks_or_shifts(node.op, right, ast.unparse(node.left)):
        yield node.left


def _masks_or_shifts(operator: ast.operator, text: str, scores: str) -> bool:
    """Whether ``scores + text`` masks, or ``scores - text`` leaves the softmax as it is."""
    if isinstance(operator, ast.Add):
        return MASK.search(text) is not None
    return isinstance(operator, ast.Sub) and shifts(text, scores)


def _may_be_named(sketch: Sketch, name: ast.Name, at: ast.stmt, seen: set[tuple[str, ast.stmt]]) -> bool:
    """The same for a name: by the assignment that gives it its value for certain, or else by all of them."""
    if (name.id, at) in seen:
        return False
    seen.add((name.id, at))
    if len(seen) > _STEPS:
        return True
    last = _last_assignment(sketch, name.id, at)
    if isinstance(last, ast.Assign):
        return _may_be_product(sketch, last.value, last, seen)
    if isinstance(last, ast.AugAssign):
        text = ast.unparse(last.value)
        is_scaled = isinstance(last.op, (ast.Mult, ast.Div)) and SCALE.search(text) is not None
        is_kept = is_scaled or _masks_or_shifts(last.op, text, name.id)
        return is_kept and _may_be_named(sketch, name, last, seen)
    return any(
        item.value is not None and _may_be_product(sketch, item.value, item.statement, seen)
        for item in sketch.bindings(name.id, at)
    )


def _last_assignment(sketch: Sketch, name: str, at: ast.stmt) -> ast.Assign | ast.AugAssign | None:
    """The assignment to a name that precedes a statement, where no other one can come between; None if unknown."""
    for above in sketch.around(at):
        blocks = (getattr(above, "body", []), above.orelse if isinstance(above, ast.If) else [])
        block = next((item for item in blocks if at in item), [])
        for before in reversed(block[: block.index(at)] if at in block else []):
            if isinstance(before, (ast.Assign, ast.AugAssign)) and _is_only_target(before, name):
                return before
            if _binds(sketch, before, name) and not _may_pass_by(before):
                return None
        if at not in block or isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return None
        at = above
    return None


def _is_only_target(statement: ast.Assign | ast.AugAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name


def _binds(sketch: Sketch, statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for inner in sketch.within(statement)
        for node in sketch.nodes(inner)
    )


def _may_pass_by(statement: ast.stmt) -> bool:
    """Whether a statement may run without the statements in it."""
    return isinstance(statement, (ast.If, *LOOPS)) and not statement.orelse


def _is_kept(sketch: Sketch, weights: ast.expr, at: ast.stmt, steps: int = _STEPS) -> bool:
    """Whether the weights are certainly used other than in dropout and products: returned, stored, passed on."""
    if steps == 0 or not isinstance(at, (ast.Assign, ast.Return, ast.Expr)):
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
        return _is_name_kept(sketch, above.targets[0].id, above, steps - 1)
    if isinstance(above, ast.BinOp):
        return not isinstance(above.op, ast.MatMult)
    listed = isinstance(above, (ast.Tuple, ast.List))
    call = parents[above] if listed else above
    return not (isinstance(call, ast.Call) and sketch.may_be(call.func, _PRODUCTS))


def _is_name_kept(sketch: Sketch, name: str, assigned: ast.stmt, steps: int) -> bool:
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
            if any(_is_kept(sketch, use, inner, steps) for use in uses if use not in stored):
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
