"""Functions that run a network for training, and are called for evaluation as well: ``compute_loss(model, batch)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.networks import Networks


class SharedSteps(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._forwards: dict[cst.FunctionDef, list[cst.Call]] = {}
        self._networks: dict[cst.Call, cst.BaseExpression | None] = {}

    def network(self, call: cst.Call) -> cst.BaseExpression | None:
        """The network that the function which ``call`` runs shares, as the place of the call names it; None if none."""
        if call not in self._networks:
            given = (self._shared_by(call, function) for function in self._forest.fact(Dispatch).run(call))
            self._networks[call] = next(filter(None, given), None)
        return self._networks[call]

    def _shared_by(self, call: cst.Call, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """What the place of a call names the first network that ``function`` runs for a backward pass elsewhere."""
        if function not in self._forwards:
            self._forwards[function] = self._forwards_in(function)
        forwards, networks = self._forwards[function], self._forest.fact(Networks)
        given = {item: self._at_call(call, function, networks.network_of(item)) for item in forwards}
        if not any(given.values()):
            return None
        carries_gradient = self._forest.fact(Gradients).carries_gradient  # asked last, as it takes longest
        return next((given[item] for item in forwards if carries_gradient(item)), None)

    def _forwards_in(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls that run a network in a function that trains none, and leaves gradients on."""
        forest = self._forest
        if forest.fact(Gradients).trains(function) or forest.fact(GradModes).disables(function):
            return []
        return [
            call
            for call in forest.tree.calls_in(function.body)
            if forest.tree.function_of(call) is function and forest.fact(Networks).runs_network(call)
        ]

    def _at_call(
        self, call: cst.Call, function: cst.FunctionDef, network: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """What the place of a call names ``network``; None if it has no name there, or maybe another one."""
        text = dotted_name(network) or ""
        if text.startswith("self."):
            is_own = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == "self"
            return network if is_own or not self._forest.fact(Networks).runs_network(call) else None
        if not isinstance(network, cst.Name):
            return None
        for param in parameters_of(function):
            if param.name.value == network.value:
                return self._forest.definitions.argument_of(call, function, param)
        home = self._forest.names.home_of(network)
        here = self._forest.names.scope_with(network.value, self._forest.tree.scope_of(call))
        if home is not None and isinstance(home.node, cst.Module):
            return network  # of a script, wherever the call is
        return network if home is not None and home is here and home.node is not function else None
