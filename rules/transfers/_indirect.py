"""Moves other than ``x.to(device)``: casts to a CUDA type, and functions of the program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.data.batch_parts import unwrapped
from torchlint.model.data.devices import Devices
from torchlint.model.data.placement import Move, Placement
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.main_guard import is_main_guard
from torchlint.model.syntax.parameters import first_parameter

#: ``torch.<name>(...)`` whose result is on the CPU, unless a device is passed.
_ON_HOST = frozenset(
    "arange as_tensor empty eye from_numpy full linspace logspace ones rand randint randn randperm stack tensor "
    "zeros".split()
)


class IndirectMoves(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    def all(self) -> Iterator[Move]:
        """The moves to a CUDA device by ``x.type(torch.cuda.FloatTensor)``, ``x.type_as(y)`` and ``to_gpu(x)``."""
        for call in self._module.methods("type", "type_as"):
            if self._is_self_test(call):
                continue
            if isinstance(call.func, cst.Attribute) and len(call.args) == 1 and self._gives_cuda(call):
                yield Move(call, call.func.value, None, Device.CUDA)
        for function, parameter in self._movers.items():
            for call in self._module.callers(function).calls:
                moved = self._module.definitions.argument_of(call, function, parameter)
                if moved is not None and call.args and moved is call.args[0].value:
                    yield Move(call, moved, None, Device.CUDA)

    # -- casts

    def _is_self_test(self, call: cst.Call) -> bool:
        """Whether ``call`` is in a function that exists only for a self-test: its tensors are usually on the CPU."""
        return self._module.function_of(call) is not None and any(
            isinstance(above, cst.If) and is_main_guard(above.test) for above in self._module.tree.ancestors(call)
        )

    def _gives_cuda(self, call: cst.Call) -> bool:
        assert isinstance(call.func, cst.Attribute)
        given = call.args[0].value
        if call.func.attr.value == "type":
            value = self._module.value(given)
            return value.kind is not Kind.TENSOR and value.device is Device.CUDA
        return self._is_on_cuda(given, call)

    def _is_on_cuda(self, tensor: cst.BaseExpression, place: cst.Call) -> bool:
        """Whether a tensor is on a CUDA device: it was moved there, or a network of a program for CUDA processes it."""
        value = self._module.value(tensor)
        if value.device is not None or not self._module.fact(Devices).uses_cuda:
            return value.device is Device.CUDA
        if value.role in (Role.OUTPUT, Role.LOSS):
            return True
        owner = self._module.tree.class_of(self._module.function_of(place) or place)
        if owner is None or self._module.values.instance(owner).kind not in (Kind.MODULE, Kind.LOSS):
            return False
        text = dotted_name(tensor) or ""
        if text.startswith("self."):
            return self._is_buffer(text[5:], owner)
        return not self._is_created_on_cpu(tensor)

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

    # -- functions

    @cached_property
    def _movers(self) -> dict[cst.FunctionDef, cst.Param]:
        """The functions of the program that return their first argument moved to a device, with that parameter."""
        found: dict[cst.FunctionDef, cst.Param] = {}
        for move in self._module.fact(Placement).moves:
            function = self._module.function_of(move.call)
            if move.device is Device.CPU or function is None or not isinstance(move.source, cst.Name):
                continue
            parameter = self._data_parameter(function)
            if parameter is not None and self._is_given(move.source, parameter) and self._is_returned(move, function):
                found.setdefault(function, parameter)
        return found

    def _data_parameter(self, function: cst.FunctionDef) -> cst.Param | None:
        """The first parameter that is not the object of a method."""
        parameters = [*function.params.posonly_params, *function.params.params]
        if parameters and self._module.tree.class_of(function) is not None and first_parameter(function):
            parameters = parameters[1:]
        return parameters[0] if parameters else None

    def _is_given(self, name: cst.Name, parameter: cst.Param) -> bool:
        return any(item.node is parameter for item in self._module.values.reaching.of(name))

    def _is_returned(self, move: Move, function: cst.FunctionDef) -> bool:
        """Whether a function returns the result of ``move``: directly, as a variable, or under a name."""
        tree = self._module.tree
        statement = tree.statement_of(move.call)
        for returned in self._module.definitions.returns(function):
            bare = unwrapped(self._module, returned) if returned is not None else None
            if bare is move.call:
                return True
            if isinstance(bare, cst.Name) and any(
                item.node is statement and item.value is move.call for item in self._module.values.reaching.of(bare)
            ):
                return True
        return False
