"""Conditions in compiled code: which are usually true, and which depend on tensor values."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.main_guard import is_main_guard

#: Methods that convert a tensor to one number or a truth value.
_REDUCTIONS = frozenset({"any", "all", "sum", "mean", "max", "min", "amax", "amin", "norm", "prod", "std", "var"})
_REDUCING = frozenset(f"torch.{name}" for name in (*_REDUCTIONS, "is_nonzero"))
_USUAL = re.compile(r"(not )?self\.training|[\w.]+ is not None|isinstance\([\w.]+, (torch\.)?Tensor\)")


def is_usual(module: Module, test: cst.BaseExpression) -> bool:
    """Whether what is under a condition counts as always reached."""
    return is_main_guard(test) or _USUAL.fullmatch(module.code(test)) is not None


def goes_on(module: Module, test: cst.BooleanOperation) -> bool:
    """Whether the right operand is usually evaluated: ``mask is None and x.any()``, not ``debug and x.any()``."""
    left = test.left
    return is_usual(module, left) or module.code(left).endswith(" is None") or depends_on_tensor(module, left)


def depends_on_tensor(module: Module, test: cst.BaseExpression) -> bool:
    """Whether a condition depends on the values of a tensor."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return depends_on_tensor(module, test.expression)
    if isinstance(test, cst.BooleanOperation):
        return depends_on_tensor(module, test.left) or (goes_on(module, test) and depends_on_tensor(module, test.right))
    if isinstance(test, cst.Comparison):
        operators = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
        sides = [test.left, *(item.comparator for item in test.comparisons)]
        if any(isinstance(item.operator, operators) for item in test.comparisons):
            return False
        if any(module.value(side).kind in (Kind.NONE, Kind.STRING, Kind.DTYPE) for side in sides):
            return False
        return any(is_tensor(module, side) for side in sides)
    return isinstance(test, cst.Call) and is_tensor(module, test)


def is_tensor(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression is certainly a tensor: the result of an operator, or a reduction."""
    value = module.value(node)
    if isinstance(node, cst.Call):
        name = module.name_of(node.func)
        if name is not None:
            return name in _REDUCING
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _REDUCTIONS:
            return False
        return module.value(func.value).kind in (Kind.TENSOR, Kind.UNKNOWN)
    return isinstance(node, (cst.Name, cst.Subscript)) and value.kind is Kind.TENSOR and value.sure
