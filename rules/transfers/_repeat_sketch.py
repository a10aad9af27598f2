"""Whether the sketch of a file shows a move that may be the same at every step; no heavy imports."""

from __future__ import annotations

import ast
import re

from torchlint.model.tensors.creation import WHOLE
from torchlint.rule.bindings import BoundKind, Function
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import bare, called_name, dotted_name, root_of

from ._move_sketch import is_cast
from ._repeat_words import MOVERS, MOVING, RUNNING

_MOVING = frozenset({"to", "cuda", "type", "type_as"})
_FORMS = WHOLE | {"to", "type", "type_as"}
_VIEWS = frozenset({"data", "T", "mT"})
_CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
#: A part of a condition on the device.
_DEVICES = re.compile(r"cuda|gpu|mps|xpu|npu|hip|rocm|cudnn|device|available|accelerator", re.IGNORECASE)
#: The maximum number of names and functions between a move and what it moves.
_DEPTH = 3


def may_move_again(sketch: Sketch) -> bool:
    """Whether a loop may move what it does not change, or a method a tensor that only the constructor assigns."""
    return any(
        call.func.attr in _MOVING
        and not is_cast(call)
        and (
            (
                call.func.attr in ("to", "cuda")
                and (_is_invariant(sketch, statement, moved) or _is_run_too(sketch, statement, call, moved))
            )
            or _is_of_object(sketch, statement, moved)
        )
        for statement in sketch.containing(".to(", ".cuda(", ".type(", ".type_as(")
        for call in sketch.calls(statement)
        if isinstance(call.func, ast.Attribute)
        for moved in [_whole(call.func.value)]
    ) or any(
        MOVERS.fullmatch(called_name(call)) and call.args and _is_of_object(sketch, statement, _whole(call.args[0]))
        for statement in sketch.containing("_device(", "_cuda(", "_gpu(")
        for call in sketch.calls(statement)
    )


def _whole(node: ast.expr) -> ast.expr:
    """The tensor of which ``node`` is another form or a part."""
    return bare(node, _FORMS, _VIEWS, items=True)


def _is_invariant(sketch: Sketch, statement: ast.stmt, moved: ast.expr) -> bool:
    """Whether the innermost loop around a statement binds nothing else to the name that is moved."""
    root, loop = root_of(moved), next(sketch.loops_around(statement), None)
    if loop is None or not root:
        return False
    bindings = [item for item in sketch.bindings(root, statement) if item.kind is not BoundKind.PARAMETER]
    return all(
        item.statement is statement
        or loop not in _containing(sketch, item.statement)
        or (
            isinstance(item.value, ast.Call) and root_of(item.value.func) == root
        )  # to another device, in another branch
        for item in bindings
    )


def _is_run_too(sketch: Sketch, statement: ast.stmt, move: ast.Call, moved: ast.expr) -> bool:
    """Whether a function other than a constructor runs the module that it moves, in the same loops or in more.

    If a statement moves an attribute of ``self``, it may also call any other method of it.
    """
    function, name = sketch.function_of(statement), dotted_name(moved)
    if function is None or function.name in _CONSTRUCTORS or name is None:
        return False
    if any(call.func is move for call in sketch.calls(statement)):
        return True
    names = {name, *(f"{name}.{method}" for method in RUNNING)}
    is_alone = isinstance(statement, ast.Expr) and statement.value is move and name.startswith("self.")
    if not is_alone and not any(f"{run.rpartition('.')[2]}(" in sketch.text for run in names):
        return False
    loops = list(sketch.loops_around(statement))

    def runs(call: ast.Call) -> bool:
        run = dotted_name(call.func) or ""
        return run in names or (is_alone and run.startswith(f"{name}.") and run.rpartition(".")[2] not in MOVING)

    return any(
        runs(call) and list(sketch.loops_around(inner))[-len(loops) or None :] == loops
        for inner in sketch.within(function)
        for call in sketch.calls(inner)
    )


def _containing(sketch: Sketch, statement: ast.stmt) -> list[ast.stmt]:
    return [statement, *sketch.around(statement)]


def _is_of_object(sketch: Sketch, statement: ast.stmt, moved: ast.expr) -> bool:
    """Whether every call of a function moves a tensor that is kept, and does not put the result under a key."""
    function = sketch.function_of(statement)
    kept = isinstance(statement, ast.Assign) and any(isinstance(item, ast.Subscript) for item in statement.targets)
    if function is None or kept:
        return False
    around = list(sketch.around(statement))
    branches = [above for above in around[: around.index(function)] if isinstance(above, ast.If)]
    deciding = (item for item in branches if not _names_in_both(item, moved))
    return all(_is_of_settings(item.test) for item in deciding) and _is_kept(sketch, statement, moved)


def _names_in_both(branch: ast.If, moved: ast.expr) -> bool:
    """Whether both parts of a branch name what is moved."""
    name = dotted_name(moved)
    parts = ("\n".join(map(ast.unparse, part)) for part in (branch.body, branch.orelse))
    return name is not None and all(name in text for text in parts)


def _is_kept(sketch: Sketch, statement: ast.stmt, moved: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether ``moved`` may be an attribute of ``self`` that only the constructor assigns, or a variable of the file.

    Also by another name, or as what a function of the file returns.
    """
    if _is_attribute_of_self(moved):
        assert isinstance(moved, ast.Attribute)
        return _is_set_up(sketch, statement, moved.attr)
    if depth <= 0:
        return False
    if isinstance(moved, ast.Name):
        bindings = sketch.bindings(moved.id, statement)
        if any(isinstance(item.statement, ast.ImportFrom) for item in bindings):
            return True  # a variable of another file
        return any(
            item.function is None or _is_kept(sketch, item.statement, _whole(item.value), depth - 1)
            for item in bindings
            if item.kind is BoundKind.VALUE and item.value is not None
        )
    if isinstance(moved, ast.Attribute):  # a variable of an imported module
        bindings = sketch.bindings(root_of(moved), statement)
        return any(isinstance(item.statement, (ast.Import, ast.ImportFrom)) for item in bindings)
    name = called_name(moved) if isinstance(moved, ast.Call) else ""
    if isinstance(moved, ast.Call) and moved.args and name in ("rearrange", "repeat"):  # of einops
        return _is_kept(sketch, statement, _whole(moved.args[0]), depth - 1)
    return bool(name) and any(
        isinstance(inner, ast.Return)
        and inner.value is not None
        and _is_kept(sketch, inner, _whole(inner.value), depth - 1)
        for function in sketch.functions
        if function.name == name
        for inner in sketch.within(function)
    )


def _is_set_up(sketch: Sketch, statement: ast.stmt, name: str) -> bool:
    """Whether no method but a constructor, or one that a constructor calls, assigns an attribute of ``self``."""
    owner = _class_of(sketch, statement)
    stored = [item for item in sketch.all_bindings(f".{name}") if item.kind is BoundKind.VALUE]
    if sketch.alone and not stored and not sketch.all_bindings(name):
        return False
    set_up = [item for item in stored if item.function is not None and _sets_up(sketch, item.function)]
    made = {ast.dump(item.value) for item in set_up if item.value is not None}
    return not any(
        item not in set_up
        and (item.value is None or ast.dump(item.value) not in made)
        and _class_of(sketch, item.statement) is owner
        and isinstance(item.statement, ast.Assign)
        and any(_is_attribute_of_self(target, name) for target in item.statement.targets)
        for item in stored
    )


def _sets_up(sketch: Sketch, function: Function) -> bool:
    """Whether a function is a constructor, or one may call it."""
    if function.name in _CONSTRUCTORS:
        return True
    calls = sketch.calls_of(function)
    homes = [sketch.function_of(statement) for _, statement in calls or ()]
    return calls is None or any(home is not None and home.name in _CONSTRUCTORS for home in homes)


def _is_of_settings(test: ast.expr) -> bool:
    """Whether a condition only compares attributes of ``self``, or may ask for the device."""
    parts = list(ast.walk(test))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    if names == {"self"} and not any(isinstance(part, ast.Call) for part in parts):
        return True
    return _DEVICES.search(ast.unparse(test)) is not None


def _is_attribute_of_self(node: ast.AST, name: str = "") -> bool:
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return is_attribute and (not name or getattr(node, "attr", "") == name)


def _class_of(sketch: Sketch, statement: ast.stmt) -> ast.stmt | None:
    return next((above for above in sketch.around(statement) if isinstance(above, ast.ClassDef)), None)
