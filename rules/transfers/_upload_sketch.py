"""Whether the sketch of a file shows code that may run once per batch; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.bindings import FUNCTIONS
from torchlint.rule.sketch import Sketch
from torchlint.rule.step_words import has_steps
from torchlint.source.lexemes import code_of


def may_run_per_batch(sketch: Sketch) -> bool:
    """Whether a file may contain a step, or an object that is called as the network that it contains."""
    if not sketch.alone or has_steps(code_of(sketch.text)):
        return True
    return any(_returns_calls(sketch, statement) for statement in sketch.containing("def __call__("))


def _returns_calls(sketch: Sketch, function: ast.stmt) -> bool:
    """Whether a function returns what it calls, and nothing else."""
    if not isinstance(function, FUNCTIONS):
        return False
    inner = (item for item in sketch.within(function) if sketch.function_of(item) is function)
    returned = [item.value for item in inner if isinstance(item, ast.Return) and item.value is not None]
    return bool(returned) and all(isinstance(item, ast.Call) for item in returned)
