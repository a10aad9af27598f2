"""Whether the sketch of a file shows an autocast that is on, or that a loop enters; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rule.bindings import FUNCTIONS, LOOPS
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name

_BRANCHES = (ast.If, ast.Try, ast.Match)
_AUTOCAST = frozenset({"autocast"})
#: Other managers of contexts.
_OTHERS = frozenset("no_grad enable_grad inference_mode set_grad_enabled open catch_warnings suppress tqdm".split())


def may_repeat_autocast(sketch: Sketch) -> bool:
    """Whether a loop enters an autocast, without a condition."""
    return any(
        isinstance(statement, ast.With) and _may_be_autocast(sketch, manager) and _is_in_loop(sketch, statement)
        for statement, manager in _entered(sketch)
    )


def _may_be_autocast(sketch: Sketch, manager: ast.expr) -> bool:
    if not isinstance(manager, ast.Call):
        return False
    return "autocast" in called_name(manager) or sketch.may_be(manager.func, _AUTOCAST)


def may_be_under_autocast(sketch: Sketch) -> bool:
    """Whether a block or function may run under an autocast that is on."""
    if sketch.alone:
        calls = (call for statement in sketch.containing("autocast") for call in sketch.calls(statement))
        return any(sketch.may_be(call.func, _AUTOCAST) and not _is_off(call) for call in calls)
    return any(True for _ in _entered(sketch))


def _entered(sketch: Sketch) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """What statements enter and functions are decorated with, unless it is not an autocast, or one that is off."""
    for statement in sketch.statements:
        managers: list[ast.expr] = []
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            managers = [item.context_expr for item in statement.items]
        elif isinstance(statement, FUNCTIONS):
            managers = statement.decorator_list
        for manager in managers:
            called = manager.func if isinstance(manager, ast.Call) else manager
            if sketch.may_be(called, _OTHERS) or (isinstance(manager, ast.Call) and _is_off(manager)):
                continue
            if (
                not isinstance(statement, FUNCTIONS)
                or "cast" in ast.unparse(called)
                or sketch.may_be(called, _AUTOCAST)
            ):
                yield statement, manager


def _is_off(call: ast.Call) -> bool:
    return any(
        item.arg == "enabled" and isinstance(item.value, ast.Constant) and item.value.value is False
        for item in call.keywords
    )


def _is_in_loop(sketch: Sketch, statement: ast.stmt) -> bool:
    for above in sketch.around(statement):
        if isinstance(above, (*_BRANCHES, *FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(above, LOOPS):
            return True
    return False
