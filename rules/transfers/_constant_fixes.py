"""Edits that make a constant on the device, or once in the constructor of its network."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import ADDING
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name, dotted_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.tensors.placement import Placement
from torchlint.model.tensors.writes import Writes
from torchlint.rule import Applicability, Fix

from ._constant_values import ConstantValues
from ._constants import NEW_TENSOR, Upload
from ._known_devices import is_known_device

#: Functions and methods that put what they are given into an object or container.
_KEEPING = ADDING | {"register_buffer", "setattr"}


def fix_of(module: Module, upload: Upload) -> Fix | None:
    """What makes a number on the device, or keeps a list as a buffer."""
    return None if upload.is_named else _fill(module, upload) or _register(module, upload)


def _is_new(factory: cst.Call) -> bool:
    """Whether it is ``x.new_tensor(...)``, which the constructor of a network has no ``x`` for."""
    return called_name(factory) == NEW_TENSOR


# -- numbers


def _fill(module: Module, upload: Upload) -> Fix | None:
    """``torch.full((), 0.0, device=x.device)``, which launches a kernel instead of copying."""
    factory, data = upload.factory, upload.data
    shape = "()"
    if isinstance(data, (cst.List, cst.Tuple)):
        if len(data.elements) != 1:
            return None
        shape, data = "(1,)", data.elements[0].value
    if not module.fact(ConstantValues).is_python_number(data) or not isinstance(factory.func, cst.Attribute):
        return None
    is_new = _is_new(factory)
    if not is_new and module.name_of(factory.func) not in ("torch.tensor", "torch.as_tensor"):
        return None
    if not is_new and _fills_float(module) and not isinstance(data, cst.Float) and keyword(factory, "dtype") is None:
        return None
    changes = edits.replace(module, factory.func.attr, "new_full" if is_new else "full")
    changes += edits.replace(module, upload.data, f"{shape}, {module.code(data)}")
    caution = ""
    if upload.node is not factory:
        device = _device(module, upload.node)
        if device is None:
            return None
        added = edits.add_keyword(module, factory, "device", device)
        removed = edits.remove_method_call(module, upload.node)
        if added is None or removed is None:
            return None
        changes += (*added, *removed)
        given = upload.node.args[0].value if upload.node.args else None
        if given is not None and upload.node.args[0].keyword is None and not is_known_device(module, given):
            caution = f"it raises if `{device}` is a dtype or a tensor" if device == module.code(given) else ""
    return Fix(
        f"fill the tensor on the device with `{'new_full' if is_new else 'torch.full'}`",
        changes,
        Applicability.UNSAFE if caution else Applicability.SAFE,
        caution,
    )


def _fills_float(module: Module) -> bool:
    """Whether ``torch.full`` may make a tensor of floats of an integer, or raise: before torch 1.7.

    https://github.com/pytorch/pytorch/releases/tag/v1.7.0
    """
    return module.target_torch is not None and module.target_torch < (1, 7)


def _device(module: Module, move: cst.Call) -> str | None:
    """What to pass as ``device`` in place of a move that does nothing else."""
    assert isinstance(move.func, cst.Attribute)
    if move.func.attr.value == "cuda":
        return None if move.args else '"cuda"'
    if move.func.attr.value != "to" or len(move.args) != 1 or move.args[0].star:
        return None
    argument = move.args[0]
    if argument.keyword is not None and argument.keyword.value != "device":
        return None
    text = module.code(argument.value)
    return text if "\n" not in text and module.fact(Placement).is_device(argument.value) else None


# -- lists


def _register(module: Module, upload: Upload) -> Fix | None:
    """A buffer that the constructor makes: ``self.register_buffer("mean", torch.tensor(...), persistent=False)``."""
    statement = module.tree.statement_of(upload.node)
    owner = module.tree.class_of(module.function_of(upload.node) or statement)
    if owner is None or upload.repeated.is_loop or not isinstance(statement, cst.Assign) or _is_new(upload.factory):
        return None
    name = _target(statement)
    constructor = _constructor(module, owner)
    if name is None or constructor is None or not _is_literal(upload.data) or _is_changed(module, statement, name):
        return None
    if statement.value is not upload.node and not _is_chained(module, upload.node, statement.value):
        return None
    made = _made(module, upload)
    if made is None or _is_taken(module, owner, name) or _is_asked_for(module, owner, upload.data):
        return None
    line = f'self.register_buffer("{name}", {made}, persistent=False)'
    last = constructor.body.body[-1]
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return):
        return None
    added = edits.insert_after(module, last, line)
    if added is None:
        return None
    return Fix(
        f"register `{name}` as a buffer in `__init__`",
        (*added, *edits.replace(module, upload.node, f"self.{name}")),
        Applicability.UNSAFE,
        "the buffer has the device and the number format of the network, and code must not change it in place",
    )


def _target(statement: cst.Assign) -> str | None:
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    return target.value if isinstance(target, cst.Name) else None


def _constructor(module: Module, owner: cst.ClassDef) -> cst.FunctionDef | None:
    """The ``__init__`` that a class defines itself, if it runs ``super().__init__()``."""
    for binding in module.tree.scopes[owner].bindings.get("__init__", ()):
        node = binding.node
        if isinstance(node, cst.FunctionDef) and isinstance(node.body, cst.IndentedBlock) and node.body.body:
            calls = (item.func for item in module.tree.calls_in(node.body))
            if any(isinstance(func, cst.Attribute) and func.attr.value == "__init__" for func in calls):
                return node
    return None


def _is_literal(data: cst.BaseExpression) -> bool:
    """Whether the data needs no name, so that it can be written in the constructor."""
    if isinstance(data, (cst.List, cst.Tuple)):
        return all(_is_literal(item.value) for item in data.elements)
    if isinstance(data, cst.UnaryOperation):
        return _is_literal(data.expression)
    if isinstance(data, cst.BinaryOperation):
        return _is_literal(data.left) and _is_literal(data.right)
    return isinstance(data, (cst.Integer, cst.Float)) or (dotted_name(data) or "").startswith("self.")


def _is_asked_for(module: Module, owner: cst.ClassDef, data: cst.BaseExpression) -> bool:
    """Whether a condition of the class asks for an attribute in the data, which may be None: ``if self.classes:``."""
    tree = module.tree
    names = set(filter(None, map(dotted_name, tree.inside(data, cst.Attribute))))
    return any(
        isinstance(above, (cst.If, cst.IfExp)) and child is above.test
        for node in tree.inside(owner, cst.Attribute)
        if dotted_name(node) in names and not _is_compared(module, node)
        for above, child in climb(tree, node, owner)
    )


def _is_compared(module: Module, node: cst.CSTNode) -> bool:
    """Whether a comparison is with something other than None: ``self.scale == 0``, ``0 <= self.scale``."""
    asking = module.tree.parent(node)
    if isinstance(asking, cst.ComparisonTarget):
        asking = module.tree.parent(asking)
    return isinstance(asking, cst.Comparison) and not any(is_none(item.comparator) for item in asking.comparisons)


def _is_changed(module: Module, statement: cst.Assign, name: str) -> bool:
    """Whether the function binds the name again, writes to the tensor, returns it, or keeps it elsewhere."""
    function = module.function_of(statement)
    if function is None or len(module.tree.scopes[function].bindings.get(name, ())) != 1:
        return True
    target = statement.targets[0].target
    writes = module.fact(Writes)
    return any(writes.on(target, function)) or any(
        writes.aliases.shared(part, writes.aliases.of(target))
        for node in module.tree.nodes_in(function.body)
        for kept in _kept_by(node)
        for part in _parts_of(kept)
    )


def _kept_by(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a statement or call returns or puts into an object or a container."""
    if isinstance(node, (cst.Return, cst.Yield)):
        if isinstance(node.value, cst.BaseExpression):
            yield node.value
    elif isinstance(node, cst.Assign):
        if not all(isinstance(item.target, cst.Name) for item in node.targets):
            yield node.value
    elif isinstance(node, cst.Call) and called_name(node) in _KEEPING:
        yield from (item.value for item in node.args)


def _parts_of(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """``node``, or the elements of the tuples, lists and dictionaries that it is written as."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Dict, cst.Set)):
        for element in node.elements:
            yield from _parts_of(element.value)
    else:
        yield node


def _is_chained(module: Module, node: cst.CSTNode, whole: cst.BaseExpression) -> bool:
    """Whether ``whole`` is ``node`` followed by methods and subscripts."""
    above = module.tree.parent(node)
    while above is not None and node is not whole:
        held = above.func if isinstance(above, cst.Call) else getattr(above, "value", None)
        if held is not node:
            return False
        node, above = above, module.tree.parent(above)
    return True


def _made(module: Module, upload: Upload) -> str | None:
    """The source of the tensor before its move, without the device."""
    if upload.node is not upload.factory:
        move = upload.node
        assert isinstance(move.func, cst.Attribute)
        if move.func.attr.value == "type_as" or len(move.args) > 1 or _device(module, move) is None:
            return None
        text = module.code(move.func.value)
        return None if "\n" in text or "#" in text else text
    given = [item for item in upload.factory.args if item.keyword is None or item.keyword.value != "device"]
    if len(given) > 2 or keyword(upload.factory, "requires_grad", "pin_memory") is not None:
        return None
    if len(given) == 2 and not (module.name_of(given[1].value) or "").startswith("torch."):
        return None  # `dtype=x.dtype`
    parts = [
        f"{item.keyword.value}={module.code(item.value)}" if item.keyword is not None else module.code(item.value)
        for item in given
    ]
    text = f"{module.code(upload.factory.func)}({', '.join(parts)})"
    return None if "\n" in text or "#" in text else text


def _is_taken(module: Module, owner: cst.ClassDef, name: str) -> bool:
    """Whether the class, or one that it derives from, has something else of this name."""
    return any(
        name in module.tree.scopes[item].attributes or name in module.tree.scopes[item].bindings
        for item in (*module.definitions.lineage(owner), *module.definitions.derived(owner))
    ) or hasattr_of_module(name)


def hasattr_of_module(name: str) -> bool:
    """Whether every ``torch.nn.Module`` has an attribute of this name that a buffer would hide."""
    return name in _OF_MODULES or name.startswith("_")


_OF_MODULES = frozenset(
    "T apply bfloat16 buffers children compile cpu cuda double eval extra_repr float forward get_buffer half ipu "
    "load_state_dict modules mtia name named_buffers parameters register_buffer share_memory state_dict to train "
    "training type xpu zero_grad device dtype".split()
)
