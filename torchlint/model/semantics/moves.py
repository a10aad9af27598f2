"""Which device an expression names, and which one a call moves to."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.calls import keyword


def moved_to(node: cst.Call, values: Evaluator) -> Device | None:
    """The device that ``x.to(...)``, ``x.cuda()``, ``x.type(...)`` moves to; None if unknown or no move."""
    if not isinstance(node.func, cst.Attribute):
        return None
    attr = node.func.attr.value
    if attr in ("cuda", "cpu", "xpu"):
        return Device.named(attr)
    if attr == "to":
        target = keyword(node, "device")
        if target is None and node.args and node.args[0].keyword is None and node.args[0].star == "":
            target = node.args[0].value
        return device_of(target, values)
    if attr == "type" and node.args:
        value = values.of(node.args[0].value)
        return value.device
    return None


def device_of(node: cst.CSTNode | None, values: Evaluator) -> Device | None:
    """The device that an expression names; None if unknown, also where the CPU is one of several."""
    if node is None:
        return None
    value = values.of(node)
    if value.kind is Kind.NUMBER:
        return Device.CUDA
    if value.kind in (Kind.TENSOR, Kind.MODULE):
        return value.device
    device = named_device(value)
    return device if device is not Device.CPU or value.sure else None
