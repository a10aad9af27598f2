"""Whether the sketch of a file shows a loop that may pass all tokens so far to a network; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.rule.growth_sketch import Growth, growths
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, root_of


def may_generate_uncached(sketch: Sketch) -> bool:
    """Whether a loop appends to a sequence along a dimension, and passes it, or a part of it, to a call."""
    return any(_is_along_sequence(growth.call) and _passes_sequence(sketch, growth) for growth in growths(sketch))


def _is_along_sequence(cat: ast.Call) -> bool:
    if called_name(cat) not in ("cat", "concat", "concatenate"):
        return True  # `hstack`, or an alias
    given = [*cat.args[1:], *(item.value for item in cat.keywords if item.arg in ("dim", "axis"))]
    return bool(given) and ast.unparse(given[0]) in ("0", "1", "-1")


def _passes_sequence(sketch: Sketch, growth: Growth) -> bool:
    body = [inner for statement in growth.loops[-1].body for inner in sketch.within(statement)]
    parts = {growth.name}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.IfExp, ast.Subscript, ast.Name)):
            parts.update(node.id for node in statement.targets if isinstance(node, ast.Name))
    return any(
        isinstance(node, ast.Name) and node.id in parts
        for statement in body
        for call in sketch.calls(statement)
        if call is not growth.call and root_of(call.func) != "torch"
        for given in (*call.args, *(item.value for item in call.keywords))
        for node in _choices(given)
    )


def _choices(given: ast.expr) -> list[ast.expr]:
    """The names that an argument may be, or be a part of."""
    if isinstance(given, ast.IfExp):
        return [*_choices(given.body), *_choices(given.orelse)]
    if isinstance(given, ast.Call) and len(given.args) == 1 and called_name(given) == "Variable":
        return _choices(given.args[0])
    return _choices(given.value) if isinstance(given, ast.Subscript) else [given]
