"""Whether the argument of ``x.to(y)`` or ``x.type_as(y)`` is a tensor, and whether that is on a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.buffers import Buffers
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.tensors.devices import Devices
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.data_flow import DataFlow, Search

from ._exits import leaves_device

#: ``torch.<name>(...)`` whose result is on the CPU, unless a device is passed.
_ON_HOST = frozenset(
    "arange as_tensor empty eye from_numpy full linspace logspace ones rand randint randn randperm stack tensor "
    "zeros".split()
)
#: Functions that only take tensors, numbers and flags.
_FUNCTIONAL = "torch.nn.functional."
#: The maximum number of expressions that a tensor is followed through.
_DEPTH = 16
#: Attributes of devices and dtypes.
_OF_OTHERS = frozenset({"type", "index", "is_floating_point", "is_complex", "is_signed", "itemsize"})


class TensorTargets(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._of_name: dict[str, set[object]] = {}

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether what ``x.to`` accepts is a tensor and neither a device nor a dtype.

        It is known to be one, or the function around it uses it as one: ``y.shape``, ``y[0]``, ``y * 2``,
        ``torch.ones_like(y)``. Another function that unpacks a parameter of the same name in the same way may do so,
        too: ``x, y = batch``.
        """
        value = self._forest.value(node)
        if value.sure and value:
            return value.kind in (Kind.TENSOR, Kind.BATCH)
        if isinstance(node, cst.Name):
            return (
                self._forest.names.home_of(node) in self._homes(node.value)
                or self._forest.fact(TensorForms).is_used_as_tensor(node)
                or self._is_unpacked_tensor(node)
                or self._is_output(node)
            )
        return (dotted_name(node), self._forest.function_of(node)) in self._attributes

    def _is_output(self, node: cst.Name) -> bool:
        """Whether ``node`` is what a network gives: as ``x.to`` accepts it, it is a tensor."""
        given = self._forest.values.reaching.only(node)
        run = given.value if given is not None and given.kind is BindingKind.ASSIGN and not given.path else None
        return isinstance(run, cst.Call) and self._forest.value(run.func).kind in (Kind.MODULE, Kind.LOSS)

    def _is_unpacked_tensor(self, node: cst.Name) -> bool:
        """Whether ``node`` is unpacked from a parameter like a name that another function uses as a tensor."""
        place = self._unpacked_from(self._forest.values.reaching.of(node))
        return place is not None and any(
            self._unpacked_from(home.bindings.get(node.value, ())[:1]) == place
            for home in self._homes(node.value)
            if isinstance(home, Scope)
        )

    def _unpacked_from(self, bindings: Sequence[Binding]) -> tuple[str, tuple[int, ...]] | None:
        """The name of the parameter that an assignment unpacks, and the position in it."""
        if len(bindings) != 1 or not bindings[0].path or not isinstance(bindings[0].value, cst.Name):
            return None
        given = bindings[0].value
        reached = self._forest.values.reaching.of(given)
        is_given = bool(reached) and all(item.kind is BindingKind.PARAM for item in reached)
        return (given.value, bindings[0].path) if is_given else None

    def _homes(self, name: str) -> set[object]:
        """The scopes whose variable of this name is used as a tensor."""
        if name not in self._of_name:
            uses = self._forest.tree.names.get(name, ())
            self._of_name[name] = {self._forest.names.home_of(use) for use in uses if self._is_used_as_tensor(use)}
        return self._of_name[name]

    @cached_property
    def _attributes(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        """The attributes that are used as tensors, by their dotted names and the functions that use them."""
        uses = filter(self._is_used_as_tensor, self._forest.tree.attributes)
        return {(name, self._forest.function_of(use)) for use in uses if (name := dotted_name(use)) is not None}

    def _is_used_as_tensor(self, use: cst.BaseExpression) -> bool:
        parent = self._forest.tree.parent(use)
        if isinstance(parent, cst.Attribute):
            return parent.value is use and parent.attr.value not in _OF_OTHERS
        if isinstance(parent, cst.Subscript):
            return parent.value is use
        if isinstance(parent, cst.Arg):
            call = self._forest.tree.parent(parent)
            return isinstance(call, cst.Call) and (self._forest.name_of(call.func) or "").startswith(_FUNCTIONAL)
        return isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation)) and not isinstance(
            getattr(parent, "operator", None), cst.Not
        )

    def is_on_host(self, tensor: cst.BaseExpression) -> bool:
        """Whether a tensor is, or may be, on the CPU: the function around it makes it, or a dataset its items.

        In a program of several files it is if all calls of the function are known, and there are none, or nothing
        uses CUDA.
        """
        if self._forest.value(tensor).device is Device.CPU or self._is_created_on_cpu(tensor):
            return True
        function = self._forest.function_of(tensor)
        owner = self._forest.tree.class_of(function or tensor)
        related = self._forest.links.related(self._forest.tree.root_of(tensor))
        if function is not None and owner is None and len(related) > 1:
            callers = self._forest.callers(function)
            if callers.complete and not (callers.calls and self._forest.fact(Devices).uses_cuda):
                return True
        return owner is not None and self._forest.values.instance(owner).kind is Kind.DATASET

    def is_on_cuda(self, tensor: cst.BaseExpression) -> bool:
        """Whether a tensor is on a CUDA device: computed from one that was moved there, or that a network processes.

        A network may run anywhere. Parameters are followed to the callers.
        """
        value = self._forest.value(tensor)
        if value.device is not None:
            return value.device is Device.CUDA
        function = self._forest.function_of(tensor)
        if not self._forest.fact(Devices).uses_cuda and (function is None or not self._is_of_network(function)):
            return False
        return self._search.finds(tensor)

    @cached_property
    def _search(self) -> Search:
        flow = self._forest.fact(DataFlow)
        return flow.search(self._is_source, self._leaves_device, outward=True, depth=_DEPTH)

    def _is_source(self, part: cst.CSTNode) -> bool:
        if isinstance(part, cst.Call):
            return part in self._moves or self._forest.value(part).role in (Role.OUTPUT, Role.LOSS)
        if isinstance(part, cst.Attribute):
            return bool(self._forest.fact(Buffers).calls_for(part))
        return isinstance(part, cst.Name) and any(map(self._is_input, self._forest.values.reaching.of(part)))

    def _is_input(self, binding: Binding) -> bool:
        """Whether a variable is what a method of a network is given."""
        function = owner_of(self._forest.tree, binding.node) if isinstance(binding.node, cst.Param) else None
        return function is not None and binding.node is not first_parameter(function) and self._is_of_network(function)

    def _is_of_network(self, function: cst.FunctionDef) -> bool:
        return self._forest.values.object_of(function).kind in (Kind.MODULE, Kind.LOSS)

    def _leaves_device(self, part: cst.CSTNode) -> bool:
        """Whether the value of ``part`` is on the CPU."""
        if leaves_device(self._forest, part) or (isinstance(part, cst.Call) and self._is_made_on_host(part)):
            return True
        return isinstance(part, (cst.Call, cst.Name)) and self._forest.value(part).is_on_host

    @cached_property
    def _moves(self) -> set[cst.Call]:
        """The calls that move something to a device other than the CPU."""
        return {move.call for move in self._forest.fact(Placement).moves if move.device is not Device.CPU}

    def _is_created_on_cpu(self, tensor: cst.BaseExpression) -> bool:
        """Whether a function of torch may have created ``tensor`` on the CPU."""
        tree = self._forest.tree
        names = tree.inside(tensor, cst.Name)
        made = [item.value for name in names for item in self._forest.values.reaching.of(name)]
        return any(
            self._is_made_on_host(call)
            for value in made
            if value is not None
            for call in (*((value,) if isinstance(value, cst.Call) else ()), *tree.calls_in(value))
        )

    def _is_made_on_host(self, call: cst.Call) -> bool:
        """Whether a function of torch may create its result on the CPU."""
        return (self._forest.name_of(call.func) or "").removeprefix("torch.") in _ON_HOST
