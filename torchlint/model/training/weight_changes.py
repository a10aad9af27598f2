"""Whether the weights of a network change around a backward pass, as in training; a saliency map changes none."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.loops import Loops, is_backward, is_step

#: How many calls down an optimizer is looked for, and how many calls up from a loop with a backward pass.
_DOWN = 2
_UP = 2
#: The names of functions that step optimizers.
_STEPPING = re.compile(r"(?:^|[._])step_\w+$|optimi[sz]e_\w+$")


class WeightChanges(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._below: dict[tuple[cst.CSTNode, int], bool] = {}

    def within(self, bodies: Iterable[cst.CSTNode]) -> bool:
        """Whether an optimizer is used in one of ``bodies``, or in a function that it calls."""
        return any(self._is_below(body, _DOWN) for body in bodies)

    def around(self, node: cst.CSTNode) -> bool:
        """Whether an optimizer is used in the function of ``node``, in those around it, or in those that call it.

        Apart from loops with a backward pass of their own that such a call is outside of: they use other gradients.
        Of a script, all that is in its file counts, and the functions that it calls.
        """
        function = self._forest.function_of(node)
        if function is None:
            return self._is_below(self._forest.tree.root_of(node), _DOWN)
        if self._is_below(function, _DOWN):
            return True
        waiting: list[tuple[cst.FunctionDef, int]] = [(function, _UP)]
        seen = {function}
        while waiting:
            current, depth = waiting.pop()
            calls = self._forest.fact(Dispatch).callers(current) if depth else ()
            if any(map(self._is_next_to, calls)):
                return True
            enclosing = self._forest.function_of(current)
            if enclosing is not None and self._is_below(enclosing, 0):
                return True
            for above in (*map(self._forest.function_of, calls), enclosing):
                if above is not None and above not in seen:
                    seen.add(above)
                    waiting.append((above, depth - 1 if depth else 0))
        return False

    def _is_next_to(self, call: cst.Call) -> bool:
        """Whether an optimizer is used in the function around ``call``, or for a script in ``call`` itself."""
        above = self._forest.function_of(call)
        return self._is_below(call if above is None else above, 0) and any(
            _uses_optimizer(use) and not self._has_other_gradients(use, call)
            for use in self._forest.tree.calls_in(call if above is None else above)
        )

    def _has_other_gradients(self, use: cst.Call, call: cst.Call) -> bool:
        """Whether ``use`` is in a loop with a backward pass, and ``call`` is outside of that loop."""
        tree = self._forest.tree
        return any(
            not tree.within(call, loop.node) and any(map(is_backward, tree.calls_in(loop.node)))
            for loop in self._forest.fact(Loops).around(use)
        )

    def _is_below(self, body: cst.CSTNode, depth: int) -> bool:
        known = self._below.get((body, depth))
        if known is None:
            calls = self._forest.tree.calls_in(body)
            known = any(map(_uses_optimizer, calls)) or (
                depth > 0
                and any(
                    self._is_below(function.body, depth - 1)
                    for call in calls
                    for function in self._forest.fact(Dispatch).functions(call)
                )
            )
            self._below[body, depth] = known
        return known


def is_optimizer_call(call: cst.Call) -> bool:
    """``optimizer.step()``, ``optimizer.zero_grad()``, ``model.zero_grad()``."""
    return is_step(call) or (isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad")


def _uses_optimizer(call: cst.Call) -> bool:
    """Also ``model.step_all()`` or ``self.optimize_parameters()``, whose functions may be out of sight."""
    name = (dotted_name(call.func) or "").lower()
    return is_step(call) or _STEPPING.search(name) is not None or (is_optimizer_call(call) and "opt" in name)
