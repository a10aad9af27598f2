"""Inputs by which old code turned gradients off: ``Variable(x, volatile=True)`` does so no more since torch 0.4."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.data_flow import DataFlow


class VolatileInputs(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    @cached_property
    def all(self) -> list[cst.Call]:
        """The calls that make such inputs."""
        return [
            call
            for call in self._module.tree.calls
            for item in call.args
            if item.keyword is not None and item.keyword.value == "volatile" and dotted_name(item.value) == "True"
        ]

    def of(self, forward: cst.Call) -> cst.Call | None:
        """The call that makes the input of a forward, in the same function."""
        function = self._module.function_of(forward)
        near = (call for call in self.all if self._module.function_of(call) is function)
        return next((call for call in near if self._feeds(call, forward)), None)

    def _feeds(self, made: cst.Call, forward: cst.Call) -> bool:
        search = self._module.fact(DataFlow).search(lambda part: part is made, lambda part: False)
        return any(search.finds(item.value) for item in forward.args)
