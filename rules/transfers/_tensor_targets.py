"""Whether the argument of ``x.to(y)`` or ``x.type_as(y)`` is a tensor, and whether that is on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.data.devices import Devices
from torchlint.model.data.placement import Placement
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name

#: ``torch.<name>(...)`` whose result is on the CPU, unless a device is passed.
_ON_HOST = frozenset(
    "arange as_tensor empty eye from_numpy full linspace logspace ones rand randint randn randperm stack tensor "
    "zeros".split()
)
#: Functions that only take tensors, numbers and flags.
_FUNCTIONAL = "torch.nn.functional."
#: How many calls lie between a tensor of a network and a function that uses it.
_DEPTH = 3
#: Attributes of devices and dtypes.
_OF_OTHERS = frozenset({"type", "index", "is_floating_point", "is_complex", "is_signed", "itemsize"})


class TensorTargets(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module
        self._of_name: dict[str, set[object]] = {}

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether what ``x.to`` accepts is a tensor and neither a device nor a dtype.

        It is known to be one, or the function around it uses it as one: ``y.shape``, ``y[0]``, ``y * 2``.
        """
        value = self._module.value(node)
        if value.sure and value:
            return value.kind in (Kind.TENSOR, Kind.BATCH)
        if isinstance(node, cst.Name):
            return self._module.names.home_of(node) in self._homes(node.value)
        return (dotted_name(node), self._module.function_of(node)) in self._attributes

    def _homes(self, name: str) -> set[object]:
        """The scopes whose variable of this name is used as a tensor."""
        if name not in self._of_name:
            uses = self._module.tree.names.get(name, ())
            self._of_name[name] = {self._module.names.home_of(use) for use in uses if self._is_used_as_tensor(use)}
        return self._of_name[name]

    @cached_property
    def _attributes(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        """The attributes that are used as tensors, by their dotted names and the functions that use them."""
        uses = filter(self._is_used_as_tensor, self._module.tree.attributes)
        return {(name, self._module.function_of(use)) for use in uses if (name := dotted_name(use)) is not None}

    def _is_used_as_tensor(self, use: cst.BaseExpression) -> bool:
        parent = self._module.tree.parent(use)
        if isinstance(parent, cst.Attribute):
            return parent.value is use and parent.attr.value not in _OF_OTHERS
        if isinstance(parent, cst.Subscript):
            return parent.value is use
        if isinstance(parent, cst.Arg):
            call = self._module.tree.parent(parent)
            return isinstance(call, cst.Call) and (self._module.name_of(call.func) or "").startswith(_FUNCTIONAL)
        return isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation)) and not isinstance(
            getattr(parent, "operator", None), cst.Not
        )

    def is_on_host(self, tensor: cst.BaseExpression) -> bool:
        """Whether a tensor is, or may be, on the CPU: the function around it makes it, or a dataset its items.

        In a program of several files it is if all calls of the function are known, and there are none, or nothing
        uses CUDA.
        """
        if self._module.value(tensor).device is Device.CPU or self._is_created_on_cpu(tensor):
            return True
        function = self._module.function_of(tensor)
        owner = self._module.tree.class_of(function or tensor)
        related = self._module.links.related(self._module.tree.root_of(tensor))
        if function is not None and owner is None and len(related) > 1:
            callers = self._module.callers(function)
            if callers.complete and not (callers.calls and self._module.fact(Devices).uses_cuda):
                return True
        return owner is not None and self._module.values.instance(owner).kind is Kind.DATASET

    def is_on_cuda(self, tensor: cst.BaseExpression, place: cst.Call, depth: int = _DEPTH) -> bool:
        """Whether a tensor is on a CUDA device: it was moved there, or a network processes it, wherever that runs.

        ``place`` is a call in the function that uses the tensor. A caller of that may pass the tensor.
        """
        value = self._module.value(tensor)
        if value.device is not None:
            return value.device is Device.CUDA
        owner = self._module.tree.class_of(self._module.function_of(place) or place)
        if owner is None and not self._module.fact(Devices).uses_cuda:
            return False
        if value.role in (Role.OUTPUT, Role.LOSS) or self._was_moved(tensor):
            return True
        if owner is None:
            return depth > 0 and any(self.is_on_cuda(given, call, depth - 1) for given, call in self._passed(tensor))
        if self._module.values.instance(owner).kind not in (Kind.MODULE, Kind.LOSS):
            return False
        text = dotted_name(tensor) or ""
        if text.startswith("self."):
            return self._is_buffer(text[5:], owner)
        return not self._is_created_on_cpu(tensor)

    def _was_moved(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Whether a tensor was moved to a device that may be CUDA, by itself or with all parts of its batch."""
        if isinstance(node, cst.BinaryOperation):
            return self._was_moved(node.left, depth)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self._was_moved(node.elt, depth)
        if isinstance(node, cst.Call):
            return node in self._moves
        if not isinstance(node, cst.Name) or depth <= 0:
            return False
        reached = self._module.values.reaching.of(node)
        return bool(reached) and all(
            item.kind == "assign" and item.value is not None and self._was_moved(item.value, depth - 1)
            for item in reached
        )

    @cached_property
    def _moves(self) -> set[cst.Call]:
        """The calls that move something to a device other than the CPU."""
        return {move.call for move in self._module.fact(Placement).moves if move.device is not Device.CPU}

    def _passed(self, tensor: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, cst.Call]]:
        """What the calls of a function pass for a parameter, with these calls."""
        function = self._module.function_of(tensor)
        reached = self._module.values.reaching.of(tensor) if isinstance(tensor, cst.Name) else ()
        for binding in reached:
            if function is None or not isinstance(binding.node, cst.Param):
                continue
            for call in self._module.callers(function).calls:
                given = self._module.definitions.argument_of(call, function, binding.node)
                if given is not None:
                    yield given, call

    def _is_buffer(self, name: str, owner: cst.ClassDef) -> bool:
        return any(
            call.args
            and nearest(self._module.tree, call, cst.ClassDef) is owner
            and isinstance(call.args[0].value, cst.SimpleString)
            and call.args[0].value.raw_value == name
            for call in self._module.methods("register_buffer")
        )

    def _is_created_on_cpu(self, tensor: cst.BaseExpression) -> bool:
        """Whether a function of torch may have created ``tensor`` on the CPU."""
        tree = self._module.tree
        names = [node for node in tree.nodes_in(tensor) if isinstance(node, cst.Name)]
        made = [item.value for name in names for item in self._module.values.reaching.of(name)]
        return any(
            (self._module.name_of(call.func) or "").removeprefix("torch.") in _ON_HOST
            for value in made
            if value is not None
            for call in (*((value,) if isinstance(value, cst.Call) else ()), *tree.calls_in(value))
        )
