"""Loops that run a network once per iteration in a function that they call, as samplers of diffusion models do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.climbing import climb
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import Loop, LoopKind, Loops
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.purpose import Purposes

#: A place with more functions between it and a loop is not looked at further, nor are functions with more callers.
_MAX_FUNCTIONS = 40
_MAX_CALLERS = 40
_REPEATING = (cst.For, cst.While, cst.BaseComp)


class _Runs(IntEnum):
    """How often a piece of code runs a network."""

    NEVER = 0
    ONCE = 1  #: or at a few places one after the other
    REPEATEDLY = 2  #: in a loop


class NetworkLoops(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._known: CyclicMemo[cst.CSTNode, _Runs] = CyclicMemo(_Runs.NEVER)

    def runs_once(self, loop: Loop) -> bool:
        """Whether each iteration of ``loop`` runs a network, and neither it nor what it calls repeats that in a loop.

        A loop over data sets, each of which a function iterates over, is not one.
        """
        return loop.kind is LoopKind.OTHER and self._of(loop.node) is _Runs.ONCE

    def around(self, node: cst.CSTNode) -> tuple[Loop, tuple[cst.Call, ...]] | None:
        """The nearest such loop whose iterations run ``node``, and the calls that lead there, the outermost first."""
        forest, passes = self._forest, self._forest.fact(Iterations).at_every_iteration
        waiting: deque[tuple[cst.CSTNode, tuple[cst.Call, ...]]] = deque([(node, ())])
        seen: set[cst.FunctionDef] = set()
        while waiting and len(seen) < _MAX_FUNCTIONS:
            place, calls = waiting.popleft()
            for loop in forest.fact(Loops).around(place):
                if passes(place, loop.node) and self.runs_once(loop):
                    return loop, calls
            function = forest.function_of(place)
            if function is None or function in seen or not passes(place, function):
                continue
            seen.add(function)
            callers = forest.fact(Dispatch).callers(function)
            if len(callers) <= _MAX_CALLERS and not forest.fact(Purposes).is_constructor(function):
                excludes = forest.values.branches.excludes
                waiting += ((call, (call, *calls)) for call in callers if not excludes(call, function, place))
        return None

    def _of(self, place: cst.CSTNode) -> _Runs:
        return self._known.get(place, self._find)

    def _find(self, place: cst.CSTNode) -> _Runs:
        """How often the body of a loop, a function or a lambda runs a network."""
        tree, found = self._forest.tree, _Runs.NEVER
        assert isinstance(place, (cst.For, cst.While, cst.FunctionDef, cst.Lambda))
        function = place if isinstance(place, (cst.FunctionDef, cst.Lambda)) else tree.function_of(place)
        for call in tree.calls_in(place.body):
            if tree.function_of(call) is function:
                runs = self._of_call(call)
                found = max(found, _Runs.REPEATEDLY if runs and self._is_repeated(call, place) else runs)
            if found is _Runs.REPEATEDLY:
                break
        return found

    def _is_repeated(self, call: cst.Call, place: cst.CSTNode) -> bool:
        """Whether a loop or a comprehension in ``place`` repeats ``call``."""
        return any(isinstance(above, _REPEATING) for above, _ in climb(self._forest.tree, call, place))

    def _of_call(self, call: cst.Call) -> _Runs:
        if self._forest.fact(Networks).is_of_library(call):
            return _Runs.NEVER
        if self._forest.fact(Outputs).runs(call) or self._forest.fact(Networks).runs_own_part(call):
            return _Runs.ONCE
        return max(map(self._of, self._called(call)), default=_Runs.NEVER)

    def _called(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        """The functions that ``call`` may run, or the lambdas: of ``self.model = lambda x, t: net(x, t)``."""
        functions = self._forest.fact(Dispatch).functions(call)
        yield from functions
        if not functions and self._forest.value(call.func).kind is Kind.FUNCTION:
            flow = self._forest.fact(ObjectFlow)
            yield from (item for item in flow.of(call.func) if isinstance(item, cst.Lambda))
