"""Whether the sketch of a file shows a test whose truth may be the value of a tensor; no heavy imports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from torchlint.rule.bindings import BoundKind
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, root_of

from ._test_words import buffers_in

_ORDER = (ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE)
#: Functions that read the tensors that they are given.
_ASKING = frozenset({"equal", "allclose", "bool", "isnan", "isinf", "isfinite"})
#: Methods of tensors that give a tensor or several, and functions of torch by their last part.
_METHODS = frozenset(
    "all any sum max min mean norm prod amax amin isnan isinf isfinite std var count_nonzero abs argmax "
    "argmin argsort bool clamp clone contiguous cpu cuda cumsum detach double eq exp flatten float gather ge "
    "gt half int le log long lt ne permute pow reshape round sigmoid softmax square sqrt squeeze t to "
    "transpose unsqueeze view topk sort kthvalue mode median cummax cummin".split()
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))
#: Functions of Python that give a tensor of tensors.
_CHOOSING = frozenset({"abs", "max", "min", "sum"})
_PROPERTIES = frozenset({"data", "T", "mT"})
_DEPTH = 8


def may_test_tensor(sketch: Sketch) -> bool:
    """Whether a test in a function compares, or asks for, what may be a tensor."""
    shown = set(sketch.containing(" if "))
    for statement in sketch.statements:
        if isinstance(statement, (ast.If, ast.While, ast.Assert)):
            tests = [statement.test]
        elif statement in shown:
            tests = []
        else:
            continue
        if statement in shown:
            nodes = sketch.nodes(statement)
            tests += [node.test for node in nodes if isinstance(node, ast.IfExp)]
            made = (node for node in nodes if isinstance(node, _COMPREHENSIONS))
            tests += [test for node in made for part in node.generators for test in part.ifs]
        if any(_asks(sketch, test, statement) for test in tests):
            return True
    return False


def _asks(sketch: Sketch, test: ast.expr, at: ast.stmt) -> bool:
    """Whether a test, or a name for the answer to a question that it contains, may ask for the value of a tensor."""
    if any(_may_be(sketch, side, at, _DEPTH) for side in _sides(test)) or _asks_buffer(sketch, test):
        return True
    return any(
        isinstance(item.value, ast.Compare)
        or (isinstance(item.value, ast.Call) and called_name(item.value) in _METHODS | _ASKING)
        for name in _parts(test)
        if isinstance(name, ast.Name)
        for item in sketch.bindings(name.id, at)
        if item.kind is BoundKind.VALUE and _may_be(sketch, item.value, item.statement, _DEPTH)
    )


def _asks_buffer(sketch: Sketch, test: ast.expr) -> bool:
    """Whether a test contains an attribute that is a buffer."""
    buffers = buffers_in(sketch.text)
    return bool(buffers) and any(isinstance(node, ast.Attribute) and node.attr in buffers for node in ast.walk(test))


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a test that `and`, `or` and `not` join."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _parts(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand)
    elif isinstance(test, ast.Call) and len(test.args) == 1 and called_name(test) in ("any", "all"):
        given = test.args[0]
        yield from _parts(given.elt) if isinstance(given, (ast.GeneratorExp, ast.ListComp)) else (test,)
    else:
        yield test


def _sides(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose values decide a test."""
    for part in _parts(test):
        if isinstance(part, ast.Compare):
            both = (part.left, *part.comparators)
            if isinstance(part.ops[0], _ORDER) and not any(map(_is_text, both)):
                yield from both
        elif isinstance(part, ast.Call) and called_name(part) in _METHODS | _ASKING:
            yield from (part, *(part.args if called_name(part) in _ASKING else ()))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))


def _may_be(sketch: Sketch, node: ast.expr | None, at: ast.stmt, depth: int) -> bool:
    """Whether an expression may have the form of a tensor: no constant, size, attribute or parameter."""
    if depth <= 0:
        return True
    if isinstance(node, ast.Name):
        inner = sketch.inner_bindings(at).get(node.id, [])  # of a comprehension
        if any(item is None or _may_be(sketch, item, at, depth - 1) for item in inner):
            return True
        return "loss" in node.id or any(
            item.kind in (BoundKind.VALUE, BoundKind.PART, BoundKind.LOOP)
            and _may_be(sketch, item.value, item.statement, depth - 1)
            for item in sketch.bindings(node.id, at)
        )
    if isinstance(node, ast.Subscript):
        return _takes_columns(node) or _may_be(sketch, node.value, at, depth - 1)
    if isinstance(node, ast.Attribute):
        is_data = node.attr == "data" and isinstance(node.value, ast.Name)
        return is_data or (node.attr in _PROPERTIES and _may_be(sketch, node.value, at, depth - 1))
    if isinstance(node, ast.Call):
        return _may_give_tensor(sketch, node, at, depth)
    return any(_may_be(sketch, part, at, depth - 1) for part in _operands(node))


def _takes_columns(node: ast.Subscript) -> bool:
    """``x[:, 0]``, ``x[..., 0]``: of a tensor or an array."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else None
    return isinstance(first, ast.Slice) or (isinstance(first, ast.Constant) and first.value is ...)


def _operands(node: ast.expr | None) -> list[ast.expr]:
    """The parts of an expression that may make it a tensor."""
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.IfExp):
        return [node.body]
    if isinstance(node, ast.Compare):
        return [*_sides(node)]
    if isinstance(node, ast.Tuple):  # `low, high = x.min(), x.max()`
        return node.elts
    return [node.elt] if isinstance(node, (ast.ListComp, ast.GeneratorExp)) else []


def _may_give_tensor(sketch: Sketch, call: ast.Call, at: ast.stmt, depth: int) -> bool:
    """Whether a call is of torch, a method of a tensor, or a function of the project."""
    packages = sketch.packages(root_of(call.func))
    if packages and "" not in packages:
        return "torch" in packages
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _METHODS or root_of(call.func) == "self"
    if not isinstance(call.func, ast.Name):
        return False
    if call.func.id in _CHOOSING:
        return any(_may_be(sketch, item, at, depth - 1) for item in call.args)
    return call.func.id not in _BUILTINS
