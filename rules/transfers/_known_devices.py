"""Whether the first argument of ``x.to(...)`` is known to be a device, or is only named like one."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.tensors.placement import Move

#: Annotations of a parameter that ``x.to(...)`` accepts only as a device.
_PROMISES = frozenset({"torch.device", "builtins.str", "builtins.int", "torch.types.Device"})
#: The maximum number of attributes that a device is followed through.
_DEPTH = 3


def goes_to_device(module: Module, move: Move) -> bool:
    """Whether ``move`` certainly passes a device: ``x.to(y)`` also accepts a dtype or a tensor.

    A keyword ``device=``, or a dtype after the argument, shows it; so does a known value.
    """
    target = move.target
    if target is None or move.is_cuda or target.keyword is not None:
        return True
    others = [item for item in move.call.args if item is not target]
    if any(_is_dtype(module, item) for item in others):
        return True
    return is_known_device(module, target.value)


def is_known_device(module: Module, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
    """Whether ``node`` is known to be a device by more than its name."""
    value = module.value(node)
    if value.kind is Kind.DEVICE or (value.kind is Kind.STRING and named_device(value)):
        return True
    if value.kind is Kind.NUMBER:
        return True
    if isinstance(node, cst.Name):
        reached = module.values.reaching.of(node)
        return bool(reached) and all(
            (
                item.kind is BindingKind.PARAM
                and isinstance(item.node, cst.Param)
                and _is_promised(module, item.node.annotation)
            )
            or (
                item.kind is BindingKind.ASSIGN
                and not item.path
                and item.value is not None
                and depth > 0
                and is_known_device(module, item.value, depth - 1)
            )
            for item in reached
        )
    return isinstance(node, cst.Attribute) and node.attr.value == "device" and _is_own_device(module, node, depth)


def _is_dtype(module: Module, argument: cst.Arg) -> bool:
    if argument.keyword is not None:
        return argument.keyword.value == "dtype"
    value = argument.value
    named = isinstance(value, cst.Attribute) and value.attr.value == "dtype"
    return named or module.value(value).kind is Kind.DTYPE


def _is_own_device(module: Module, node: cst.Attribute, depth: int) -> bool:
    """Whether ``x.device`` is the attribute of torch, and not one that the program sets to an unknown value."""
    owner = dotted_name(node.value)
    stored = [
        value
        for held, value, _ in module.fact(Stores).attributes.get("device", ())
        if owner is not None and dotted_name(held) == owner
    ]
    return all(depth > 0 and is_known_device(module, value, depth - 1) for value in stored)


def _is_promised(module: Module, annotation: cst.Annotation | None) -> bool:
    return annotation is not None and _is_device_type(module, annotation.annotation)


def _is_device_type(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an annotation allows only devices and their names: ``torch.device | str | None``."""
    if isinstance(node, cst.BinaryOperation):
        return _is_device_type(module, node.left) and _is_device_type(module, node.right)
    if isinstance(node, cst.SimpleString):
        return node.raw_value in ("torch.device", "str", "int")
    if isinstance(node, cst.Subscript) and (module.name_of(node.value) or "") in ("typing.Optional", "typing.Union"):
        given = [item.slice.value for item in node.slice if isinstance(item.slice, cst.Index)]
        return all(_is_device_type(module, item) for item in given)
    return module.code(node) == "None" or (module.name_of(node) or module.code(node)) in _PROMISES
