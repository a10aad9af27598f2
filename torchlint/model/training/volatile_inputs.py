"""Inputs by which old code turned gradients off: ``Variable(x, volatile=True)`` does so no more since torch 0.4."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.data_flow import DataFlow, Search


class VolatileInputs(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def all(self) -> list[cst.Call]:
        """The calls that make such inputs."""
        tree = self._forest.tree
        given = (item for item in tree.keywords.get("volatile", ()) if dotted_name(item.value) == "True")
        return [call for item in given if isinstance(call := tree.parent(item), cst.Call)]

    def of(self, forward: cst.Call) -> cst.Call | None:
        """The last call before a forward, in the same function, if such a call makes the input of the forward."""
        if not self.all:
            return None
        function = self._forest.function_of(forward)
        made = self._by_function.get(function)
        if made is None or not any(self._searches[function].finds(item.value) for item in forward.args):
            return None
        before = bisect_left(made, self._forest.tree.index(forward), key=self._forest.tree.index)
        return made[max(before - 1, 0)]

    @cached_property
    def _by_function(self) -> dict[cst.FunctionDef | None, list[cst.Call]]:
        found: dict[cst.FunctionDef | None, list[cst.Call]] = {}
        for call in self.all:
            found.setdefault(self._forest.function_of(call), []).append(call)
        return found

    @cached_property
    def _searches(self) -> dict[cst.FunctionDef | None, Search]:
        """What finds the calls of each function in the values that are computed from them."""
        search = self._forest.fact(DataFlow).search
        return {
            function: search(frozenset[cst.CSTNode](made).__contains__, lambda part: False)
            for function, made in self._by_function.items()
        }
