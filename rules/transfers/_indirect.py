"""Moves other than ``x.to(device)``: to the device of a tensor, casts to a CUDA type, and functions of the program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.data.batch_parts import unwrapped
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.tensors.new_tensors import NewTensors
from torchlint.model.tensors.placement import Move, Placement
from torchlint.source.lexemes import comments_in

from ._tensor_targets import TensorTargets

#: The maximum number of names and parameters that the type of a tensor is followed through.
_DEPTH = 4


class IndirectMoves(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def all(self) -> list[Move]:
        """The moves to CUDA by ``x.to(y)``, ``x.type_as(y)``, ``x.type(torch.cuda.FloatTensor)`` and ``to_gpu(x)``."""
        return [*self._casts(), *self.by_functions]

    def _casts(self) -> Iterator[Move]:
        for call in self._forest.methods("to", "type", "type_as"):
            if call.method == "to" and self._forest.fact(NewTensors).of(call.receiver) is None:
                continue
            if self.goes_to_tensor(call.node):
                yield Move(call.node, call.receiver, None, Device.CUDA)

    @cached_property
    def by_functions(self) -> list[Move]:
        """The moves by functions of the program: ``to_gpu(x)``."""
        return [*self._calls_of_movers()]

    def _calls_of_movers(self) -> Iterator[Move]:
        for function, parameter in self._movers.items():
            for call in self._forest.callers(function).calls:
                moved = self._forest.definitions.argument_of(call, function, parameter)
                if moved is not None and call.args and moved is call.args[0].value:
                    yield Move(call, moved, None, Device.CUDA)

    # -- casts

    def goes_to_tensor(self, call: cst.Call) -> bool:
        """Whether ``x.to(y)``, ``x.type_as(y)`` or ``x.type(y.type())`` gives a tensor on the GPU, as ``y`` is one."""
        if len(call.args) != 1 or call.args[0].keyword is not None or not isinstance(call.func, cst.Attribute):
            return False
        return self._gives_cuda(call, call.func) and not self._is_self_test(call) and not self._is_traced(call)

    def _is_self_test(self, call: cst.Call) -> bool:
        """Whether ``call`` is in a function that exists only for a self-test: its tensors are usually on the CPU."""
        return self._forest.function_of(call) is not None and self._forest.is_in_guard(call)

    def _is_traced(self, call: cst.Call) -> bool:
        """Whether a comment of the function, there or above, says that a trace records casts."""
        row = self._forest.row_at(self._forest.span(call)[0])
        function = self._forest.function_of(call)
        first = row if function is None else self._forest.row_at(self._forest.span(function)[0])
        lines = map(self._forest.line, range(first, row + 1))
        return any("trace" in comment for line in lines for comment in comments_in(line))

    def _gives_cuda(self, call: cst.Call, func: cst.Attribute) -> bool:
        given = call.args[0].value
        if func.attr.value == "type":
            typed = self._typed(given)
            if typed:
                return any(map(self._forest.fact(TensorTargets).is_on_cuda, typed))
            value = self._forest.value(given)
            return value.kind is not Kind.TENSOR and value.device is Device.CUDA
        if func.attr.value == "to":
            return self._is_tensor(given) and not self._forest.fact(TensorTargets).is_on_host(given)
        return self._forest.fact(TensorTargets).is_on_cuda(given)

    def _typed(self, node: cst.BaseExpression, depth: int = _DEPTH) -> list[cst.BaseExpression]:
        """The tensors whose type ``node`` is: ``x`` of ``x.type()``, perhaps by a name or a parameter."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            return [node.func.value] if node.func.attr.value == "type" else []
        if not isinstance(node, cst.Name) or depth <= 0:
            return []
        found = [self._given(item) for item in self._forest.values.reaching.of(node)]
        typed = [[] if item is None else self._typed(item, depth - 1) for given in found for item in given or (None,)]
        return [tensor for tensors in typed for tensor in tensors] if all(typed) else []

    def _given(self, binding: Binding) -> list[cst.BaseExpression | None]:
        """What a name is given, or what the calls of the function give its parameter."""
        if not isinstance(binding.node, cst.Param):
            return [binding.value if binding.kind is BindingKind.ASSIGN and not binding.path else None]
        function = owner_of(self._forest.tree, binding.node)
        if function is None:
            return []
        calls = self._forest.callers(function).calls
        return [self._forest.definitions.argument_of(call, function, binding.node) for call in calls]

    def _is_tensor(self, given: cst.BaseExpression) -> bool:
        """Whether ``x.to(given)`` gives a tensor the dtype and device of another one."""
        return not self._forest.fact(Placement).is_device(given) and self._forest.fact(TensorTargets).is_tensor(given)

    # -- functions

    @cached_property
    def _movers(self) -> dict[cst.FunctionDef, cst.Param]:
        """The functions of the program that return their first argument moved to a device, with that parameter."""
        found: dict[cst.FunctionDef, cst.Param] = {}
        for move in self._forest.fact(Placement).moves:
            function = self._forest.function_of(move.call)
            if move.device is Device.CPU or function is None or not isinstance(move.source, cst.Name):
                continue
            parameter = self._data_parameter(function)
            if parameter is not None and self._is_given(move.source, parameter) and self._is_returned(move, function):
                found.setdefault(function, parameter)
        return found

    def _data_parameter(self, function: cst.FunctionDef) -> cst.Param | None:
        """The first parameter that is not the object of a method."""
        parameters = [*function.params.posonly_params, *function.params.params]
        if parameters and self._forest.tree.class_of(function) is not None and first_parameter(function):
            parameters = parameters[1:]
        return parameters[0] if parameters else None

    def _is_given(self, name: cst.Name, parameter: cst.Param) -> bool:
        return name.value == parameter.name.value and any(
            item.node is parameter for item in self._forest.values.reaching.of(name)
        )

    def _is_returned(self, move: Move, function: cst.FunctionDef) -> bool:
        """Whether a function returns the result of ``move``: directly, as a variable, or under a name."""
        tree = self._forest.tree
        statement = tree.statement_of(move.call)
        for returned in self._forest.definitions.returns(function):
            bare = unwrapped(self._forest, returned) if returned is not None else None
            if bare is move.call:
                return True
            if isinstance(bare, cst.Name) and any(
                item.node is statement and item.value is move.call for item in self._forest.values.reaching.of(bare)
            ):
                return True
        return False
