"""Placement: which calls move a tensor to a device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import last_part, name_or_key

#: Calls that set the device of all tensors that are made without one.
_DEFAULT_SETTERS = ("torch.set_default_device", "torch.set_default_tensor_type")
#: Names of variables that are devices, if their value is unknown.
_DEVICE_NAMES = re.compile(r"device|^dev\d*$|_dev$|gpu|cuda|(^|_)rank(_id)?$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Move:
    """A call ``x.to(device)`` or ``x.cuda()``, or another that moves ``x``."""

    call: cst.Call
    source: cst.BaseExpression  #: ``x``
    target: cst.Arg | None  #: the argument that names the device; None for ``x.cuda()``
    device: Device | None  #: None where it is out of sight

    @property
    def may_not_block(self) -> bool:
        """Whether the call passes ``non_blocking``, or may do so."""
        behind = 0
        for argument in self.call.args:
            if argument.star or (argument.keyword is not None and argument.keyword.value in ("non_blocking", "async")):
                return True
            if argument.keyword is None and argument is not self.target:
                behind += 1
                if isinstance(argument.value, cst.Name) and argument.value.value in ("True", "False"):
                    return True
        return behind > (0 if self.is_cuda else 1)

    @property
    def method(self) -> str | None:
        """The method of ``x`` that moves it; None where a function does."""
        func = self.call.func
        return func.attr.value if isinstance(func, cst.Attribute) and func.value is self.source else None

    @property
    def is_cuda(self) -> bool:
        """Whether it is ``x.cuda(...)``."""
        return self.method == "cuda"


class Placement(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def moves(self) -> list[Move]:
        """The calls that move something to a device, in order."""
        return list(self._moves())

    def _moves(self) -> Iterator[Move]:
        for call in self._forest.methods("to", "cuda"):
            target = call.argument("device").node
            if call.method == "cuda":
                if self._forest.name_of(call.node.func) is None and not call.opaque:
                    yield Move(call.node, call.receiver, target, Device.CUDA)
                continue
            if target is not None and self.is_device(target.value):
                yield Move(call.node, call.receiver, target, device_of(target.value, self._forest.values))

    def is_device(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` names a device, not a dtype or another tensor."""
        value = self._forest.value(node)
        if value.kind in (Kind.DEVICE, Kind.STRING):
            return value.kind is Kind.DEVICE or bool(named_device(value))
        if value.kind is Kind.NUMBER:
            return isinstance(value.constant, int) or self._named_as_device(node)
        if value.kind in (Kind.TENSOR, Kind.BATCH, Kind.MODULE, Kind.DTYPE, Kind.ARRAY):
            return False
        return self._named_as_device(node)

    def _named_as_device(self, node: cst.BaseExpression) -> bool:
        """Whether it is called like a device, as ``config["device"]``, or is its type: ``args.device.type``."""
        name = name_or_key(node.func if isinstance(node, cst.Call) else node)
        if not name and isinstance(node, cst.Attribute):
            name = node.attr.value  # `model(x).device`
        return bool(_DEVICE_NAMES.search(last_part(name.removesuffix(".type"))))

    @cached_property
    def is_gpu_default(self) -> bool:
        """Whether a GPU is set as the device of all tensors that are created without one."""
        return bool(self._setting_gpu_default)

    def is_gpu_default_at(self, node: cst.CSTNode) -> bool:
        """Whether it is set in all programs that reach the file of a place."""
        links = self._forest.links
        scripts = links.scripts(self._forest.tree.root_of(node)) if self._setting_gpu_default else ()
        return bool(scripts) and not any(self._setting_gpu_default.isdisjoint(links.program(item)) for item in scripts)

    @cached_property
    def _setting_gpu_default(self) -> frozenset[cst.CSTNode]:
        """The files that set it, and not only while a function builds a network."""
        calls = list(self._forest.calls(*_DEFAULT_SETTERS))
        setting = [call.node for call in filter(self._sets_gpu_default, calls)]
        others = [call.node for call in calls if call.node not in setting]
        lasting = (node for node in setting if not any(self._follows(other, node) for other in others))
        return frozenset(map(self._forest.tree.root_of, lasting))

    def _follows(self, node: cst.Call, earlier: cst.Call) -> bool:
        """Whether ``node`` is a later statement of the block of ``earlier``, or of one around that, in a function."""
        tree, function = self._forest.tree, self._forest.function_of(node)
        line = tree.line_of(tree.statement_of(node)) if function is not None else None
        if line is None or self._forest.function_of(earlier) is not function:
            return False
        return tree.within(earlier, line[0]) and tree.index(node) > tree.index(earlier)

    def _sets_gpu_default(self, call: Call) -> bool:
        if not call.node.args:
            return False
        given = self._forest.value(call.node.args[0].value)
        if call.name == "torch.set_default_device":
            return named_device(given) is not Device.CPU
        return (given.constant if isinstance(given.constant, str) else given.name).startswith("torch.cuda.")
