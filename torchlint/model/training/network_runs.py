"""Calls that run or train a network, directly or through the functions of the program that they call."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.training import loops
from torchlint.model.training.networks import Networks

#: How many functions, each called by the one before, may lead to a network.
_LEVELS = 3


class NetworkRuns(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module
        self._networks = module.fact(Networks)
        self._known: dict[tuple[cst.FunctionDef, int], bool] = {}  #: by function and the number of levels below it

    def leads_to_network(self, call: cst.Call, levels: int = _LEVELS) -> bool:
        """Whether ``call`` runs or trains a network, or a function that it calls does, over that many levels."""
        if loops.is_backward(call) or loops.is_step(call) or self._networks.is_forward(call):
            return True
        if self._networks.runs_network(call):
            return True
        return levels > 0 and any(
            self._runs_inside(definition, levels - 1)
            for definition in self._module.definitions.called(call, self._module.values)
            if isinstance(definition, cst.FunctionDef)
        )

    def _runs_inside(self, function: cst.FunctionDef, levels: int) -> bool:
        key = (function, levels)
        if key not in self._known:
            self._known[key] = False  # a function may call itself
            calls = self._module.tree.calls_in(function.body)
            self._known[key] = any(self.leads_to_network(call, levels) for call in calls)
        return self._known[key]
