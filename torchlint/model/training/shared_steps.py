"""Functions that run a network for training, and are called for evaluation as well: ``compute_loss(model, batch)``."""

from __future__ import annotations

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
        self._run: dict[cst.FunctionDef, cst.BaseExpression | None] = {}
        self._networks: dict[cst.Call, cst.BaseExpression | None] = {}

    def network(self, call: cst.Call) -> cst.BaseExpression | None:
        """The network that the function which ``call`` runs shares, as the place of the call names it; None if none."""
        if call not in self._networks:
            given = (
                self._at_call(call, function, network)
                for function in self._module.fact(Dispatch).run(call)
                if (network := self._network_in(function)) is not None
            )
            self._networks[call] = next(filter(None, given), None)
        return self._networks[call]

    def _network_in(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """The first network that ``function`` runs for a backward pass elsewhere."""
        if function not in self._run:
            self._run[function] = self._find_network_in(function)
        return self._run[function]

    def _find_network_in(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        module, gradients, networks = self._module, self._module.fact(Gradients), self._module.fact(Networks)
        forwards = [
            call
            for call in module.tree.calls_in(function.body)
            if module.tree.function_of(call) is function and networks.runs_network(call)
        ]
        if not forwards or gradients.trains(function) or module.fact(GradModes).disables(function):
            return None
        return next((networks.network_of(call) for call in forwards if gradients.carries_gradient(call)), None)

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
