"""Whether the sketch of a file shows a loop that may average parameters; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Collection

from torchlint.rule.bindings import FUNCTIONS
from torchlint.rule.sketch import Sketch
from torchlint.rule.step_words import has_steps
from torchlint.source.lexemes import code_of

from ._average_words import CALLED, NAMES, PARAMETERS, WEIGHTS

_BLENDING = frozenset({"add_", "sub_", "lerp_", "copy_", "add"})


def may_average(sketch: Sketch) -> bool:
    """Whether a loop over parameters, which a training step may run, changes what it iterates over."""
    return any(
        isinstance(loop, (ast.For, ast.AsyncFor))
        and _is_over_parameters(sketch, loop)
        and _may_run_per_step(sketch, loop)
        and _may_blend(sketch, loop)
        for loop in sketch.containing("for ")
    )


def _is_over_parameters(sketch: Sketch, loop: ast.For | ast.AsyncFor) -> bool:
    text = ast.unparse(loop.iter)
    if "param_groups" in text:
        return False
    if PARAMETERS.search(text):
        return True
    names = [node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)]
    if any(PARAMETERS.search(ast.unparse(value)) for name in names for value in sketch.values(name)):
        return True
    if PARAMETERS.search(sketch.text) and any(name in _parameters(sketch, loop) for name in names):
        return True
    attributes = [node.attr for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute)]
    stored = (item.value for name in attributes for item in sketch.all_bindings(f".{name}"))
    return any(value is not None and PARAMETERS.search(ast.unparse(value)) for value in stored)


def _parameters(sketch: Sketch, statement: ast.stmt) -> set[str]:
    """The names of the parameters of the function around a statement."""
    function = sketch.function_of(statement)
    return {item.arg for item in function.args.args} if function is not None else set()


def _may_run_per_step(sketch: Sketch, loop: ast.stmt) -> bool:
    """Whether a training step may run a loop, or a name of its function or class says what it is there for."""
    if not sketch.alone or has_steps(code_of(sketch.text)):
        return True
    around = (above for above in sketch.around(loop) if isinstance(above, (*FUNCTIONS, ast.ClassDef)))
    return any(NAMES.search(above.name) for above in around) or not WEIGHTS.isdisjoint(_parameters(sketch, loop))


def _may_blend(sketch: Sketch, loop: ast.For | ast.AsyncFor) -> bool:
    body = [inner for statement in loop.body for inner in sketch.within(statement)]
    bound = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for statement in body:
        for target in statement.targets if isinstance(statement, ast.Assign) else []:
            bound.update(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    return any(_changes(statement, bound) for statement in body)


def _changes(statement: ast.stmt, bound: Collection[str]) -> bool:
    """Whether a statement changes what an iteration is about."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _may_average_one(statement.value) and _mentions(statement.value, bound)
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, (ast.Add, ast.Sub)) and _mentions(statement.target, bound)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if isinstance(statement.value, ast.Call) and CALLED.search(ast.unparse(statement.value)):
        return _mentions(statement.value, bound)
    return isinstance(target, (ast.Attribute, ast.Subscript)) and _mentions(target, bound)


def _may_average_one(call: ast.Call) -> bool:
    """Whether a call may blend a parameter, or is of a function that may."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _BLENDING:
        return True
    return CALLED.search(f"{ast.unparse(call.func)}(") is not None


def _mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))
