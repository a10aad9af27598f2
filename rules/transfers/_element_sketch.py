"""Whether the sketch of a file shows a loop that may read a tensor element by element; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rule.bindings import BoundKind
from torchlint.rule.sketch import Sketch
from torchlint.rule.tensor_sketch import may_be_tensor
from torchlint.source.ast_names import bare, called_name

_LISTS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COUNTING = frozenset({"range", "enumerate"})
_CONVERTING = frozenset({"float", "int", "range"})
_COPYING = frozenset({"cpu", "detach", "numpy"})
_SHOWING = frozenset({"tqdm", "trange", "track"})
_JOINING = _SHOWING | {"enumerate", "zip"}


def may_read_elements(sketch: Sketch) -> bool:
    """Whether a loop or comprehension of a function reads a number from each element of what may be a tensor."""
    for statement in sketch.containing(".item()", "float(", "int(", "range(", ".cpu()"):
        function = sketch.function_of(statement)
        if function.name == "__init__" if function is not None else not sketch.loops_around(statement):
            continue  # it runs once
        elements = [
            named
            for call in sketch.calls(statement)
            if (element := _read_by(call)) is not None
            for named in _items_named(sketch, call, element, statement)
        ]
        if not elements:
            continue
        for name, over in _loops(sketch, statement):
            for element in elements:
                tensor = _tensor_of(element, name, over)
                if tensor is None or _is_linspace(tensor):
                    continue
                if _is_parameter(sketch, tensor, statement) or may_be_tensor(sketch, tensor, statement):
                    return True
                if isinstance(tensor, ast.Attribute) and may_be_tensor(sketch, over, statement):
                    return True  # `results.scores[index]`, by a tensor of indices
    return False


def _read_by(call: ast.Call) -> ast.expr | None:
    """What a call takes a number from."""
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "cpu" and not call.args:
            element = _copied(call)
            is_element = isinstance(element, ast.Subscript) and isinstance(element.slice, ast.Tuple)
            return element if is_element else None
        if call.func.attr == "item":
            return _copied(call.func.value) if not call.args else None
    is_read = called_name(call) in _CONVERTING and not call.keywords
    parts = map(_unrounded, call.args if is_read else ())
    return next((part for part in parts if not isinstance(part, ast.Constant)), None)


def _unrounded(node: ast.expr) -> ast.expr:
    """What a number is computed from by functions of one argument and with literals."""
    while True:
        node = _copied(node)
        if isinstance(node, ast.Call) and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node, ast.BinOp):
            node = node.left if isinstance(node.right, ast.Constant) else node.right
        else:
            return node


def _copied(node: ast.expr) -> ast.expr:
    """``x`` for ``x.detach().cpu().numpy()``."""
    return bare(node, _COPYING, ("data",))


def _is_parameter(sketch: Sketch, node: ast.expr, at: ast.stmt) -> bool:
    """Whether an expression is a parameter, or a part of one: its uses may show that it is a tensor."""
    bound = sketch.bindings(node.id, at) if isinstance(node, ast.Name) else []
    wholes = [item.value for item in bound if item.kind is BoundKind.PART and isinstance(item.value, ast.Name)]
    outer = [item for whole in wholes if isinstance(whole, ast.Name) for item in sketch.bindings(whole.id, at)]
    return any(item.kind is BoundKind.PARAMETER for item in (*bound, *outer))


def _is_linspace(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) == "torch.linspace"
    )


def _loops(sketch: Sketch, statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The variable of each loop around the expressions of a statement, or in them, and what it iterates over."""
    for node in sketch.nodes(statement):
        if isinstance(node, _LISTS) and len(node.generators) == 1:
            yield from _bound(node.generators[0].target, node.generators[0].iter)
    for above in sketch.loops_around(statement):
        if not isinstance(above, ast.While):
            yield from _bound(above.target, above.iter)
            for pairs in _zipped(sketch, above.iter, statement):
                yield from _bound(above.target, pairs)


def _zipped(sketch: Sketch, over: ast.expr, at: ast.stmt) -> Iterator[ast.expr]:
    """``zip(x, y)`` of a loop over ``enumerate(pairs)``, after ``pairs = list(zip(x, y))``."""
    while isinstance(over, ast.Call) and over.args and called_name(over) in _JOINING - {"zip"}:
        over = over.args[0]
    for item in sketch.bindings(over.id, at) if isinstance(over, ast.Name) else ():
        made = item.value if item.kind is BoundKind.VALUE else None
        if isinstance(made, ast.Call) and called_name(made) == "list" and len(made.args) == 1:
            yield made.args[0]


def _bound(target: ast.expr, over: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The variables of a loop, each with what it may iterate over: also all arguments of ``zip``."""
    overs = [over]
    if isinstance(target, ast.Tuple):
        for given in overs:  # which grows
            if isinstance(given, ast.Call) and called_name(given) in _JOINING:
                overs += given.args
    for part in ast.walk(target):
        if isinstance(part, ast.Name):
            yield from ((part.id, given) for given in overs)


def _tensor_of(element: ast.expr, name: str, over: ast.expr) -> ast.expr | None:
    """The tensor of whose elements one is read: ``v`` of ``v[i]``, or what ``x`` of ``x`` or ``x[0]`` iterates over."""
    while isinstance(over, ast.Call) and over.args and called_name(over) in _SHOWING:
        over = over.args[0]
    counting = isinstance(over, ast.Call) and called_name(over) in _COUNTING
    if isinstance(element, ast.Name) and element.id == name:
        return None if counting else over
    indices: list[ast.expr] = []
    while isinstance(element, ast.Subscript):
        indices += element.slice.elts if isinstance(element.slice, ast.Tuple) else [element.slice]
        element = element.value
    if not isinstance(element, (ast.Name, ast.Attribute)):
        return None
    if isinstance(element, ast.Name) and element.id == name:  # `box[0]` of boxes
        plain = len(indices) == 1 and isinstance(indices[0], (ast.Constant, ast.UnaryOp))
        return over if plain and not isinstance(over, ast.Call) else None
    return element if any(isinstance(index, ast.Name) and index.id == name for index in indices) else None


def _items_named(sketch: Sketch, call: ast.Call, element: ast.expr, at: ast.stmt) -> list[ast.expr]:
    """An element, or for ``x.item()`` also what it is a name of: ``tensor[i]`` for ``x`` of ``x = tensor[i]``."""
    if not isinstance(element, ast.Name) or not isinstance(call.func, ast.Attribute):
        return [element]
    values = (item.value for item in sketch.bindings(element.id, at))
    return [element, *(value for value in values if isinstance(value, ast.Subscript))]
