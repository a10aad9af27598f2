"""Whether the sketch of a file shows a move of a tensor that may be newly created; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.tensors.creation import (
    COMPUTING,
    DRAWN_IF_SIZED,
    FACTORIES,
    FILLING,
    JOINING,
    LEGACY,
    READING,
    SAME_EVERYWHERE,
)
from torchlint.rule.bindings import Function
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, root_of

from ._move_words import MAKERS

#: Keywords with which a factory makes a tensor elsewhere, or one that must be on the host.
_OPTIONS = frozenset({"device", "generator", "out", "pin_memory", "requires_grad"})
_MOVING = frozenset({"to", "cuda", "type", "type_as"})
#: Methods and functions whose result is another form of the same tensor.
_FORMS = SAME_EVERYWHERE | COMPUTING | FILLING | JOINING | {"scatter_", "to", "type", "Variable", "Parameter"}
_FORMS |= {"rearrange", "pad"}
#: Functions that make a tensor of an array, functions of NumPy that create one, and methods that give another form.
_OF_ARRAYS = LEGACY | {"from_numpy", "tensor", "as_tensor", "astype", "copy", "concatenate"}
_OF_ARRAYS |= {"array", "ravel", "expand_dims", "list", "product"}
_ARRAYS = frozenset({"identity", "tri", "range"})
#: Methods of distributions that draw.
_SAMPLING = frozenset({"sample", "rsample"})
#: Through how many functions a tensor is returned.
_CALLS = 4


def may_move_created(sketch: Sketch) -> bool:
    """Whether a method moves, or a function that may move it is given, what a factory function may have created."""
    makers = _makers(sketch)
    for statement in sketch.containing(".to(", ".cuda(", ".type(", ".type_as("):
        for call in sketch.calls(statement):
            if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVING and not is_cast(call):
                if _may_be_created(sketch, statement, call.func.value, makers):
                    return True
    if any(_may_be_created(sketch, statement, given, makers) for statement, given in _given(sketch)):
        return True
    return any(_may_copy_created(sketch, statement, makers) for statement in sketch.containing(".copy_("))


def _makers(sketch: Sketch) -> set[str]:
    """The names of the functions of the file that contain a call of a factory, or of another of these functions."""
    found: set[str] = set()
    creating = [*sketch.containing(*(f"{name}(" for name in FACTORIES))]
    creating += [item for item in sketch.containing(" in range(") if not isinstance(item, ast.For)]
    for _ in range(_CALLS):
        functions = {sketch.function_of(statement) for statement in creating}
        made = {function.name for function in functions if function is not None and _may_make(sketch, function)}
        new, found = made - found, found | made
        creating = [*sketch.containing(*(f"{name}(" for name in new))] if new else []
    return found


def _may_make(sketch: Sketch, function: Function) -> bool:
    """Whether a function returns something, does not wait for a condition, and keeps and reads nothing."""
    returns = False
    for statement in sketch.within(function):
        if isinstance(statement, (ast.While, ast.Global, ast.Nonlocal)):
            return False
        returns = returns or (isinstance(statement, ast.Return) and statement.value is not None)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Attribute) for target in targets):
            return False
        if any(called_name(call) in READING for call in sketch.calls(statement)):
            return False
    return returns


def _may_copy_created(sketch: Sketch, statement: ast.stmt, makers: set[str]) -> bool:
    """Whether ``copy_`` may copy what a factory has created in a function to an attribute of ``self``."""
    function = sketch.function_of(statement)
    return (
        function is not None
        and any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "copy_"
            and isinstance(call.func.value, ast.Attribute)
            for call in sketch.calls(statement)
        )
        and any(
            sketch.may_be(call.func, FACTORIES) or sketch.may_be(call.func, makers)
            for inner in sketch.within(function)
            for call in sketch.calls(inner)
        )
    )


def is_cast(call: ast.Call) -> bool:
    """``x.to(torch.float16)``, ``x.to(dtype=y.dtype)``: without a device."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return False
    if any(item.arg == "device" for item in call.keywords):
        return False
    target = call.args[0] if call.args else None
    if isinstance(target, ast.Attribute):
        return target.attr == "dtype" or (isinstance(target.value, ast.Name) and target.value.id == "torch")
    return target is None or (isinstance(target, ast.Name) and target.id.endswith("dtype"))


def _given(sketch: Sketch) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """What functions of the program are given that may move it, with the statement."""
    movers = {
        function.name
        for statement in sketch.containing(".to(", ".cuda(")
        if (function := sketch.function_of(statement)) is not None
    }
    if movers or not sketch.alone:
        creating = sketch.containing(*(f"{name}(" for name in (*FACTORIES, "Tensor")))
        nodes = [node for statement in creating for node in sketch.nodes(statement)]
        names = sorted({node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)})
        for statement in dict.fromkeys((*creating, *sketch.containing(*(f"({name}" for name in names)))):
            for call in sketch.calls(statement):
                if call.args and (sketch.may_be(call.func, movers) or _may_be_elsewhere(sketch, call.func)):
                    yield statement, call.args[0]


def _may_be_elsewhere(sketch: Sketch, func: ast.expr) -> bool:
    """Whether a function may be one of another file that is analysed with this one."""
    return not sketch.alone and sketch.packages(root_of(func)) != {"torch"}


def _may_be_created(sketch: Sketch, statement: ast.stmt, moved: ast.expr, makers: set[str]) -> bool:
    """Whether what is moved may be the result of a factory, by the expressions that lead to it."""
    seen: set[tuple[str, bool]] = set()  #: names, the first of them in the block of the move, others anywhere
    waiting = [(moved, False)]
    while waiting:
        node, filled = waiting.pop()
        if isinstance(node, ast.Name):
            is_first = not seen
            if (node.id, is_first) not in seen:
                waiting += [(value, filled) for value in _values(sketch, statement, node.id, is_first=is_first)]
                seen.add((node.id, is_first))
        elif _is_repeated(node):
            return True
        elif not isinstance(node, ast.Call):
            waiting += [(item, filled) for item in _operands(node)]
        elif sketch.may_be(node.func, FACTORIES | DRAWN_IF_SIZED) or _may_be_sized(sketch, node, filled=filled):
            if not any(item.arg is None or (item.arg in _OPTIONS and _is_elsewhere(item)) for item in node.keywords):
                return True
        elif sketch.may_be(node.func, makers | _ARRAYS) or _may_be_returned(sketch, node):
            return True
        elif sketch.may_be(node.func, _OF_ARRAYS) or sketch.may_be(node.func, _FORMS):
            filled = filled or sketch.may_be(node.func, FILLING)
            waiting += [(item, filled) for item in node.args[:1]]
            if isinstance(node.func, ast.Attribute):
                waiting.append((node.func.value, filled))
    return False


def _may_be_returned(sketch: Sketch, call: ast.Call) -> bool:
    """Whether a call may be of a function of another file that makes a tensor, or of a distribution that draws one."""
    name = called_name(call)
    if name in _SAMPLING:
        return bool(call.args) and "distributions" in sketch.text
    return not sketch.alone and MAKERS.search(name) is not None


def _may_be_sized(sketch: Sketch, call: ast.Call, *, filled: bool) -> bool:
    """Whether a call may be of a type that gets sizes: ``torch.FloatTensor(rows, columns)``."""
    if not sketch.may_be(call.func, LEGACY):
        return False
    return filled or len(call.args) > 1 or any(map(_is_size_of_tensor, call.args))


def _is_size_of_tensor(node: ast.expr) -> bool:
    """``x.size()``, ``x.shape``, ``*sizes``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "size"
    return isinstance(node, ast.Starred) or (isinstance(node, ast.Attribute) and node.attr == "shape")


def _is_elsewhere(option: ast.keyword) -> bool:
    """Whether an option may do more than state its default, ``requires_grad=False``, or name a new tensor."""
    is_off = isinstance(option.value, ast.Constant) and option.value.value is False
    return not is_off and not (option.arg == "out" and isinstance(option.value, ast.Call))


def _is_repeated(node: ast.expr) -> bool:
    """``[1] * n``, ``[1] * rows * columns``."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else ()
    return any((isinstance(side, ast.List) and len(side.elts) == 1) or _is_repeated(side) for side in sides)


def _operands(node: ast.expr) -> list[ast.expr]:
    """What an expression other than a call computes from, selects from or contains."""
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return [node.elt, *(item.iter for item in node.generators)]
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else []


def _values(sketch: Sketch, statement: ast.stmt, name: str, *, is_first: bool) -> list[ast.expr]:
    """What a name may be given; of the name that a statement moves, the last before it in each block of an ``if``.

    And in each condition before it.
    """
    if not is_first:
        return sketch.values(name)
    blocks = [next(sketch.around(statement), None)]
    while isinstance(blocks[-1], ast.If):
        blocks.append(next(sketch.around(blocks[-1]), None))
    before = {
        next(sketch.around(item.statement), None): item
        for item in sorted(sketch.bindings(name, statement), key=lambda item: item.statement.lineno)
        if item.statement.lineno <= statement.lineno and item.statement is not statement
    }
    above = {block: next(sketch.around(block), None) for block in before if isinstance(block, ast.If)}
    blocks += [block for block, outer in above.items() if outer in blocks and block not in blocks]  # `if x is None:`
    values = [before[block].value for block in blocks if block in before]
    return [value for value in values if value is not None]
