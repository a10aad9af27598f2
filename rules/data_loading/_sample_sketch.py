"""Whether the sketch of a file shows a loop that may run a network on single samples; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Collection
from itertools import takewhile

from torchlint.model.semantics.knowledge import LIST_ADDING
from torchlint.rule.bindings import Function
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, root_of

from ._sample_words import ONE_BY_ONE, TIMING

_INSERTING = frozenset({"unsqueeze", "unsqueeze_", "expand_dims"})
_SHAPING = frozenset({"view", "reshape"})
_STACKING = frozenset({"stack", "array", "asarray", "tensor", "FloatTensor"})
#: Methods and functions that return the same sample, on another device or in another form.
_SAME = frozenset(
    "to cuda cpu float half double bfloat16 type contiguous detach clone requires_grad_ pin_memory permute transpose "
    "div div_ sub sub_ mul mul_ add add_ clamp clamp_ astype copy "
    "Variable from_numpy tensor as_tensor FloatTensor ascontiguousarray stack array asarray interpolate".split()
)
#: Packages that contain functions and classes, but no networks.
_LIBRARIES = frozenset({"torch", "numpy", "math", "os", "time", "random", "re", "json", "logging"})


def may_run_samples(sketch: Sketch) -> bool:
    """Whether a `for` loop, or a function that it calls, may run a network on a batch of size 1, or on one text."""
    looped: set[ast.stmt] = set()
    for statement in sketch.containing(" for "):
        if any(isinstance(node, (ast.ListComp, ast.GeneratorExp)) for node in sketch.nodes(statement)):
            if not sketch.alone or _runs_single(sketch, {statement: None}):
                return True
            looped.add(statement)
    for loop in sketch.statements:
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            body = {inner: None for statement in loop.body for inner in sketch.within(statement)}
            if any(_is_one_by_one(sketch, call, item, loop) for item in body for call in sketch.calls(item)):
                continue
            if not sketch.alone or _runs_single(sketch, body):
                return True  # the function that the loop calls may be in another file
            looped.update(body)
    return any(
        _may_be_called(sketch, function, looped) and _runs_single(sketch, dict.fromkeys(sketch.within(function)))
        for function in (sketch.functions if looped else ())
    )


def _may_be_called(sketch: Sketch, function: Function, statements: Collection[ast.stmt]) -> bool:
    """Whether some statements may call a function, by its name or another one."""
    calls = sketch.calls_of(function)
    return calls is None or any(statement in statements for _, statement in calls)


def _is_one_by_one(sketch: Sketch, call: ast.Call, statement: ast.stmt, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a call in a loop shows that samples arrive one by one; those in a branch may measure times."""
    if not root_of(call.func) or ONE_BY_ONE.match(called_name(call)) is None:
        return False
    blocks = takewhile(lambda block: block is not loop, sketch.around(statement))
    return TIMING.match(called_name(call)) is None or not any(isinstance(block, ast.If) for block in blocks)


def _runs_single(sketch: Sketch, body: Collection[ast.stmt]) -> bool:
    """Whether a call in some statements is given a single sample, or generates text, or runs a pipeline."""
    return any(_is_run(sketch, call, body) for statement in body for call in sketch.calls(statement))


def _is_run(sketch: Sketch, call: ast.Call, body: Collection[ast.stmt]) -> bool:
    packages = sketch.packages(root_of(call.func))
    if packages and packages <= _LIBRARIES:
        return False
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "generate":
            return "okenizer" in sketch.text
        if call.func.attr in LIST_ADDING:
            return False
    elif isinstance(call.func, ast.Name):
        made = sketch.values(call.func.id)
        if any(isinstance(value, ast.Call) and sketch.may_be(value.func, {"pipeline"}) for value in made):
            return True
    given = [*call.args, *(item.value for item in call.keywords)]
    return any(_may_be_single(sketch, item, body) for item in given)


def _may_be_single(sketch: Sketch, given: ast.expr, body: Collection[ast.stmt]) -> bool:
    """Whether an expression may be a batch of size 1 that some statements make."""
    seen: set[str] = set()
    waiting = [given]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            waiting += sketch.values(node.id, body)
        elif isinstance(node, ast.IfExp):
            waiting.append(node.body)
        elif isinstance(node, ast.Tuple):  # `images, labels = Variable(images), Variable(labels)`
            waiting += node.elts
        elif isinstance(node, ast.BinOp):
            waiting.append(node.left)
        elif isinstance(node, ast.Subscript) and _takes_row(sketch, node.slice):
            return True
        elif isinstance(node, ast.Call):
            if _makes_single(sketch, node):
                return True
            if sketch.may_be(node.func, _SAME):
                waiting += node.args[:1]
                waiting += [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return False


def _makes_single(sketch: Sketch, call: ast.Call) -> bool:
    """``torch.unsqueeze(x, 0)``, ``np.stack([x])``, ``x.unsqueeze(0)``."""
    if sketch.may_be(call.func, _INSERTING):
        given = [*call.args[-1:], *(item.value for item in call.keywords)]
        return not all(
            isinstance(item, ast.UnaryOp) or (isinstance(item, ast.Constant) and item.value != 0) for item in given
        )
    if sketch.may_be(call.func, _SHAPING):
        first = call.args[0] if len(call.args) > 1 else None
        return first is not None and (not isinstance(first, ast.Constant) or first.value == 1)
    data = call.args[0] if call.args and sketch.may_be(call.func, _STACKING) else None
    return isinstance(data, (ast.List, ast.Tuple)) and len(data.elts) == 1


def _takes_row(sketch: Sketch, index: ast.expr) -> bool:
    """``x[None]``, ``x[np.newaxis, ...]``, ``xs[i : i + 1]``."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    if isinstance(first, ast.Constant):
        return first.value is None
    if isinstance(first, ast.Slice):
        upper = first.upper
        return isinstance(upper, ast.BinOp) and isinstance(upper.right, ast.Constant) and upper.right.value == 1
    return sketch.may_be(first, {"newaxis"})
