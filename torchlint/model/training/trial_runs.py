"""Forwards that only try out or describe a network: with zeros or random numbers, or a new network."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.iterables import iterables
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import PARTS, base_of, dotted_name
from torchlint.model.syntax.literals import is_constant_name
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.function_words import inspects_network
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loaded_weights import LoadedWeights, makes_trained
from torchlint.model.training.loops import Loops
from torchlint.model.training.output_uses import OutputUses

_BLANK = frozenset({"zeros", "ones", "empty", "zeros_like", "ones_like", "full"})
_RANDOM = _BLANK | {"rand", "randn", "randint", "rand_like", "randn_like", "arange"}
#: How many variables a list of networks is followed through.
_DEPTH = 3


class TrialRuns:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def makes_network(self, function: cst.FunctionDef, model: cst.BaseExpression) -> bool:
        """Whether the network is made in the function, and neither that nor a function that makes it loads weights."""
        if not isinstance(model, cst.Name):
            return False
        scope = self._module.names.home_of(model)
        bindings = scope.bindings[model.value] if scope is not None and scope.node is function else []
        if any(binding.kind is BindingKind.PARAM for binding in bindings) or all(map(self._is_given, bindings)):
            return False
        made = [call for item in bindings if item.value is not None for call in self._module.tree.calls_in(item.value)]
        called = [item for call in made for item in self._module.definitions.called(call, self._module.values)]
        makers = [item for item in called if isinstance(item, cst.FunctionDef)]
        weights = self._module.fact(LoadedWeights)
        if weights.after_creation(function) or any(map(makes_trained, made)):
            return False
        return not any(map(weights.within, makers))

    def _is_given(self, binding: Binding) -> bool:
        """Whether a name is given what another one refers to: ``critic, actor = networks``, ``for net in nets``."""
        if binding.kind is BindingKind.FOR and binding.value is not None:
            taken = iterables(self._module.names, binding.value, binding.path)
            return all(self._contains_given(over, _DEPTH) for over, _ in taken)
        return binding.kind is BindingKind.ASSIGN and isinstance(base_of(binding.value, PARTS), cst.Name)

    def _contains_given(self, node: cst.BaseExpression | None, depth: int) -> bool:
        """Whether a list only has networks that are made elsewhere: ``[self.encoder, self.decoder] * 2``."""
        root = base_of(node, PARTS)
        if isinstance(root, cst.BinaryOperation):
            return self._contains_given(root.left, depth)
        if isinstance(root, (cst.List, cst.Tuple)):
            return all(isinstance(base_of(element.value, PARTS), cst.Name) for element in root.elements)
        if not isinstance(root, cst.Name) or depth < 0:
            return False
        bindings = self._module.names.bindings(root)
        return all(item.kind is BindingKind.PARAM or self._contains_given(item.value, depth - 1) for item in bindings)

    def is_dry_run(self, call: cst.Call, function: cst.FunctionDef | None) -> bool:
        """Whether all the network is given are zeros or ones, or random numbers once in a script or before a training.

        Random numbers only if nothing is detached from the output.
        """
        made = self._given(call)
        is_once = not self._module.fact(Loops).around(call) and (
            function is None or self._module.fact(Gradients).trains(function)
        )
        if made <= _BLANK or not is_once or not made <= _RANDOM:
            return made <= _BLANK
        return not self._module.fact(OutputUses).leaves_graph(call, function or self._module.root)

    def only_describes(self, call: cst.Call, function: cst.FunctionDef | None) -> bool:
        """Whether nobody takes the output of a single forward: hooks count operations or make a table of layers."""
        module, statement = self._module, self._module.tree.parent(call)
        targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else []
        is_dropped = isinstance(statement, cst.Expr) or [*map(dotted_name, targets)] == ["_"]
        if function is None or not is_dropped or module.fact(Loops).around(call):
            return False
        return inspects_network(function.name.value)

    def is_given_numbers(self, call: cst.Call) -> bool:
        """Whether a forward is given nothing but constants and random numbers."""
        return self._given(call) <= _RANDOM

    def _given(self, call: cst.Call) -> set[str]:
        """The functions of torch that made the arguments of a forward, without flags; "" for anything else."""
        values = [self._module.value(item.value) for item in call.args if not is_constant_name(item.value)]
        names = [item.name if self._filled.isdisjoint(item.origins) else "" for item in values]
        return {name[6:] if name.startswith("torch.") else "" for name in names} or {""}

    @cached_property
    def _filled(self) -> frozenset[cst.CSTNode]:
        """What makes the tensors that data is put into: the zeros of ``rows[i] = torch.from_numpy(row)``."""
        places = (target for target, _, _ in self._module.tree.stores if isinstance(target, cst.Subscript))
        return frozenset(origin for place in places for origin in self._module.value(place.value).origins)
