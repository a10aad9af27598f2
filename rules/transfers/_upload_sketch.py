"""Whether the sketch of a file shows constants that may be made once per batch; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.bindings import FUNCTIONS, Function
from torchlint.rule.sketch import Sketch
from torchlint.rule.step_words import has_steps
from torchlint.source.lexemes import code_of

from ._upload_words import FACTORIES


def may_upload_per_batch(sketch: Sketch) -> bool:
    """Whether a file may contain a step, a loop that makes a tensor, or an object that is called as its network is."""
    if not sketch.alone or has_steps(code_of(sketch.text)) or _may_repeat(sketch, sketch.containing(*FACTORIES)):
        return True
    return any(_returns_calls(sketch, statement) for statement in sketch.containing("def __call__("))


def _may_repeat(sketch: Sketch, waiting: list[ast.stmt]) -> bool:
    """Whether one of some statements is in a loop, or a function that contains one is mentioned in a loop."""
    followed = {""}
    while waiting:
        statement = waiting.pop()
        if any(sketch.loops_around(statement)):
            return True
        name = _called_by(sketch, sketch.function_of(statement))
        if name not in followed:
            followed.add(name)
            waiting += sketch.containing(name)
    return False


def _called_by(sketch: Sketch, function: Function | None) -> str:
    """The name that calls of a function contain: that of its class for ``__call__``."""
    if function is None or not function.name.startswith("__"):
        return "" if function is None else function.name
    above = next(sketch.around(function), None)
    return above.name if isinstance(above, ast.ClassDef) else ""


def _returns_calls(sketch: Sketch, function: ast.stmt) -> bool:
    """Whether a function returns what it calls, and nothing else."""
    if not isinstance(function, FUNCTIONS):
        return False
    inner = (item for item in sketch.within(function) if sketch.function_of(item) is function)
    returned = [item.value for item in inner if isinstance(item, ast.Return) and item.value is not None]
    return bool(returned) and all(isinstance(item, ast.Call) for item in returned)
