"""Code that a program runs again and again: in a network's `forward`, at every training step, or called from there."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes

#: How many calls lie between the code and the `forward` or the loop at most.
_DEPTH = 3
#: A function with more callers than this is a helper of everything.
_MAX_CALLERS = 40
#: Methods of a network that are run once per batch.
_FORWARDS = frozenset({"forward", "training_step", "validation_step", "test_step", "predict_step"})


@dataclass(frozen=True, eq=False)
class Repeated:
    """What runs a place again and again."""

    place: cst.CSTNode  #: the loop or the function
    call: cst.Call | None = None  #: the call at that place by which it is reached; None if it is directly there

    @property
    def is_loop(self) -> bool:
        """Whether a loop repeats it, and not the callers of a function."""
        return isinstance(self.place, (cst.For, cst.While))


class Repetition(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module
        self._known: dict[cst.FunctionDef, Repeated | None] = {}

    def of(self, node: cst.CSTNode) -> Repeated | None:
        """What runs ``node`` once per batch, directly or a few calls deep; None if nothing is seen to do so."""
        return self._of(node, _DEPTH)

    def _of(self, node: cst.CSTNode, depth: int) -> Repeated | None:
        loop = self._module.fact(Loops).hot(node)
        if loop is not None:
            return Repeated(loop.node)
        function = self._module.function_of(node)
        while function is not None:
            found = self._of_function(function, depth)
            if found is not None:
                return found
            function = self._module.function_of(function)
        return None

    def _of_function(self, function: cst.FunctionDef, depth: int) -> Repeated | None:
        if function not in self._known:
            self._known[function] = None  # it may call itself
            self._known[function] = self._find(function, depth)
        return self._known[function]

    def _find(self, function: cst.FunctionDef, depth: int) -> Repeated | None:
        if self.is_forward(function):
            return Repeated(function)
        if depth <= 0 or self._module.fact(Purposes).is_constructor(function):
            return None
        calls = self._module.callers(function).calls
        if len(calls) > _MAX_CALLERS:
            return None
        for call in calls:
            found = self._of(call, depth - 1)
            if found is not None:
                return Repeated(found.place, found.call or call)
        return None

    def is_forward(self, function: cst.FunctionDef) -> bool:
        """Whether a network, a criterion or a trainer runs ``function`` for every batch."""
        if function in self._module.fact(LibrarySteps).methods or function in self._module.fact(LibrarySteps).updates:
            return True
        owner = self._module.tree.class_of(function)
        if owner is None or function.name.value not in _FORWARDS:
            return False
        return self._module.values.instance(owner).kind in (Kind.MODULE, Kind.LOSS)
