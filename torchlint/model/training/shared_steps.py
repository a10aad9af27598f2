"""Functions that run a network for training, and are called for evaluation as well: ``compute_loss(model, batch)``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.networks import Networks


class SharedSteps(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    @cached_property
    def networks(self) -> dict[cst.Call, cst.BaseExpression]:
        """The calls of such functions, and the network that each runs, as the place of the call names it."""
        found: dict[cst.Call, cst.BaseExpression] = {}
        for function, network in self._functions.items():
            for call in self._module.fact(Dispatch).callers(function):
                given = self._at_call(call, function, network)
                if given is not None:
                    found.setdefault(call, given)
        return found

    @cached_property
    def _functions(self) -> dict[cst.FunctionDef, cst.BaseExpression]:
        """The functions that run a network for a backward pass elsewhere, and that network."""
        return dict(reversed(list(self._all())))  # the first network of each

    def _all(self) -> Iterator[tuple[cst.FunctionDef, cst.BaseExpression]]:
        module, gradients, networks = self._module, self._module.fact(Gradients), self._module.fact(Networks)
        for call in module.tree.calls:
            if not gradients.carries_gradient(call) or not networks.runs_network(call):
                continue
            function = module.tree.function_of(call)
            if isinstance(function, cst.FunctionDef) and not gradients.trains(function):
                if not module.fact(GradModes).disables(function):
                    yield function, networks.network_of(call)

    def _at_call(
        self, call: cst.Call, function: cst.FunctionDef, network: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """What the place of a call names ``network``; None if it has no name there, or maybe another one."""
        text = dotted_name(network) or ""
        if text.startswith("self."):
            is_own = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == "self"
            return network if is_own or not self._module.fact(Networks).runs_network(call) else None
        if not isinstance(network, cst.Name):
            return None
        for param in parameters_of(function):
            if param.name.value == network.value:
                return self._module.definitions.argument_of(call, function, param)
        home = self._module.names.home_of(network)
        here = self._module.names.scope_with(network.value, self._module.tree.scope_of(call))
        return network if home is not None and home is here and home.node is not function else None
