"""Whether the sketch of a file shows a move that may be the same at every step; no heavy imports."""

from __future__ import annotations

import ast

from torchlint.model.data.creation import WHOLE
from torchlint.rule.bindings import BindingKind
from torchlint.rule.sketch import Sketch, root_of

from ._move_sketch import is_cast


def may_move_again(sketch: Sketch) -> bool:
    """Whether a loop may move what it does not change, or a method a tensor that only the constructor assigns."""
    return any(
        call.func.attr in ("to", "cuda")
        and not is_cast(call)
        and (_is_invariant(sketch, statement, moved) or _is_of_object(sketch, statement, moved))
        for statement in sketch.containing(".to(", ".cuda(")
        for call in sketch.calls(statement)
        if isinstance(call.func, ast.Attribute)
        for moved in [_whole(call.func.value)]
    )


def _whole(node: ast.expr) -> ast.expr:
    """The tensor of which ``node`` is another form or a part."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WHOLE:
            node = node.func.value
        else:
            return node


def _is_invariant(sketch: Sketch, statement: ast.stmt, moved: ast.expr) -> bool:
    """Whether the innermost loop around a statement binds nothing else to the name that is moved."""
    root, loop = root_of(moved), next(sketch.loops_around(statement), None)
    if loop is None or not root:
        return False
    bindings = [item for item in sketch.bindings(root, statement) if item.kind is not BindingKind.PARAMETER]
    return all(
        item.statement is statement
        or loop not in _containing(sketch, item.statement)
        or (
            isinstance(item.value, ast.Call) and root_of(item.value.func) == root
        )  # to another device, in another branch
        for item in bindings
    )


def _containing(sketch: Sketch, statement: ast.stmt) -> list[ast.stmt]:
    return [statement, *sketch.around(statement)]


def _is_of_object(sketch: Sketch, statement: ast.stmt, moved: ast.expr) -> bool:
    """Whether every call of a method moves an attribute of ``self`` that it does not keep, and no method assigns."""
    function = sketch.function_of(statement)
    if not _is_attribute_of_self(moved) or function is None:
        return False
    kept = isinstance(statement, ast.Assign) and any(
        isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets
    )
    around = list(sketch.around(statement))
    conditions = [above.test for above in around[: around.index(function)] if isinstance(above, ast.If)]
    if kept or not all(map(_is_of_settings, conditions)):
        return False
    owner = _class_of(sketch, statement)
    assert isinstance(moved, ast.Attribute)
    stored = [item for item in sketch.all_bindings(f".{moved.attr}") if item.kind is BindingKind.VALUE]
    if sketch.alone and not stored:
        return False
    return not any(
        (item.function is None or item.function.name != "__init__")
        and _class_of(sketch, item.statement) is owner
        and isinstance(item.statement, ast.Assign)
        and any(_is_attribute_of_self(target, moved.attr) for target in item.statement.targets)
        for item in stored
    )


def _is_of_settings(test: ast.expr) -> bool:
    """Whether a condition only compares attributes of ``self``."""
    parts = list(ast.walk(test))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names == {"self"} and not any(isinstance(part, ast.Call) for part in parts)


def _is_attribute_of_self(node: ast.AST, name: str = "") -> bool:
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return is_attribute and (not name or getattr(node, "attr", "") == name)


def _class_of(sketch: Sketch, statement: ast.stmt) -> ast.stmt | None:
    return next((above for above in sketch.around(statement) if isinstance(above, ast.ClassDef)), None)
