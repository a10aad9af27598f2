"""Sampling: which forwards are repeated on the same input, for a network whose layers draw random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import LIST_ADDING
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import base_of, called_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import Outputs

#: Methods that give the same values, elsewhere or in another form.
_SAME = frozenset({"to", "cuda", "cpu", "float", "half", "unsqueeze", "contiguous"})
#: Methods that collect values; `update` is also one of meters, which collect no outputs.
_COLLECTING = LIST_ADDING | {"add", "add_"}
#: What binds names, with a target.
_BINDING = frozenset({cst.AssignTarget, cst.CompFor, cst.For, cst.AugAssign, cst.AnnAssign, cst.NamedExpr})


class Sampling(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._module = forest
        self._tree = forest.tree

    @cached_property
    def all(self) -> list[cst.Call]:
        """The forwards that are repeated on the same input, with the outputs collected: Monte Carlo dropout."""
        loops = [node for node in self._tree.loops if isinstance(node, cst.For) and self._counts(node.iter)]
        inner = [node for node in self._tree.scopes if isinstance(node, COMPREHENSIONS)]
        repeating = [*loops, *(node for node in inner if self._counts(node.for_in.iter))]
        repeated = dict.fromkeys(call for node in repeating for call in self._tree.calls_in(node))
        runs_network = self._module.fact(Networks).runs_network
        return [call for call in repeated if runs_network(call) and self._repetition_of(call) is not None]

    def _repetition_of(self, call: cst.Call) -> cst.CSTNode | None:
        """The comprehension or loop over a ``range`` that repeats ``call``, a forward, on the same input."""
        for above, child in climb(self._tree, call):
            if isinstance(above, COMPREHENSIONS):
                return above if self._counts(above.for_in.iter) and self._is_constant_in(above, call) else None
            if isinstance(above, cst.For) and child is above.body:
                repeats = self._counts(above.iter) and self._is_constant_in(above, call)
                return above if repeats and self._is_collected(above, call) else None
            if isinstance(above, (cst.While, cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                return None
        return None

    def _counts(self, over: cst.BaseExpression) -> bool:
        """Whether something is done a number of times: ``range(n)``, ``trange(n)``, ``tqdm(range(n))``."""
        names = {self._module.name_of(call.func) for call in self._tree.calls_in(over)}
        return not names.isdisjoint({"builtins.range", "tqdm.trange", "tqdm.auto.trange"})

    def _is_constant_in(self, around: cst.CSTNode, call: cst.Call) -> bool:
        """Whether network and input stay the same: nothing in ``around`` binds or changes their names."""
        used: set[str] = set()
        for part in self._tree.nodes_in(call):
            if isinstance(part, cst.Call) and part is not call and not _keeps_values(part):
                return False
            if isinstance(part, cst.Name):
                used.add(part.value)
        return used.isdisjoint(self._changed_in(around, call))

    def _changed_in(self, around: cst.CSTNode, call: cst.Call) -> Iterator[str]:
        """The names that are bound in ``around``, stored into, or that a statement calls a method of."""
        for part in self._tree.nodes_in(around):
            if type(part) in _BINDING:
                yield from _names(part.target)  # type: ignore[attr-defined]
            elif type(part) is cst.Expr and isinstance(part.value, cst.Call) and part.value is not call:
                yield from _names(part.value.func)

    def _is_collected(self, loop: cst.For, call: cst.Call) -> bool:
        """Whether the outputs of all iterations are kept or added up."""
        outputs = self._module.fact(Outputs)
        for part in self._tree.nodes_in(loop.body):
            given: list[cst.BaseExpression] = []
            if isinstance(part, cst.Call):
                given = [item.value for item in part.args] if called_name(part) in _COLLECTING else []
            elif isinstance(part, (cst.Assign, cst.AugAssign)):
                adds = isinstance(part, cst.AugAssign) or isinstance(part.targets[0].target, cst.Subscript)
                given = [part.value] if adds else []
            if any(outputs.carries(item, {call}, frozenset()) for item in given):
                return True
        return False


def _keeps_values(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _SAME


def _names(node: cst.CSTNode) -> Iterator[str]:
    """The first names in a target or in what is called: ``x`` of ``x.data[0]``; all of ``a, b``."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _names(element.value)
    base = base_of(node)
    if isinstance(base, cst.Name):
        yield base.value
