"""Whether the sketch of a file shows a builtin function that is called on what may be a tensor; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.sketch import Sketch
from torchlint.rule.tensor_sketch import may_be_tensor

_NAMES = frozenset({"sum", "max", "min", "sorted", "any", "all"})


def may_call_builtin(sketch: Sketch) -> bool:
    """Whether one of these functions gets one argument, which may be a tensor."""
    for statement in sketch.containing(*(f"{name}(" for name in _NAMES)):
        for call in sketch.calls(statement):
            if len(call.args) != 1 or call.keywords or not isinstance(call.func, ast.Name):
                continue
            if sketch.may_be(call.func, _NAMES) and may_be_tensor(sketch, call.args[0], statement):
                return True
    return False
