"""Iterable-style datasets that start again by themselves, so that no pass over their loader ends."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.calls import Call, keyword
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.literals import is_true
from torchlint.model.syntax.nodes import HANDLERS

#: How many methods of a dataset hand on what another one yields.
_DEPTH = 3


class EndlessDatasets:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def has_one_pass(self, place: cst.CSTNode, loader: Call) -> bool:
        """Whether a pass that starts at ``place`` starts where another one has ended, or goes on, for ever.

        The dataset of the loader does not end, so that ``except StopIteration:`` is not reached.
        """
        restarts = isinstance(place, cst.Call) and nearest(self._tree, place, *HANDLERS) is not None
        goes_on = isinstance(place, cst.For) and not any(self._exits(place))
        return (restarts or goes_on) and self._is_endless(loader)

    def _is_endless(self, loader: Call) -> bool:
        value = self._module.value(self._module.fact(Loading).dataset(loader))
        if not isinstance(value.definition, cst.ClassDef) or value.kind is Kind.CLASS:
            return False
        method = self._module.definitions.method(value.definition, "__iter__")
        return method is not None and self._never_ends(method, value, _DEPTH)

    def _never_ends(self, method: cst.FunctionDef, dataset: Value, depth: int) -> bool:
        """Whether a generator has a ``while True:`` without an exit, or hands on what such a method yields."""
        definitions = self._module.definitions
        for loop in self._tree.inside(method.body, cst.While):
            exits = (node for node in self._exits(loop) if not self._is_switched_off(node, dataset))
            if is_true(loop.test) and self._yields(loop) and not any(exits):
                return True
        handed = [loop.iter for loop in self._tree.inside(method.body, cst.For) if not any(self._exits(loop))]
        for node in (*handed, *definitions.delegated(method), *definitions.returns(method)):
            for called in definitions.called(node, self._module.values) if isinstance(node, cst.Call) and depth else ():
                if isinstance(called, cst.FunctionDef) and self._never_ends(called, dataset, depth - 1):
                    return True
        return False

    def _yields(self, loop: cst.While) -> bool:
        function = self._module.function_of(loop)
        return any(self._module.function_of(node) is function for node in self._tree.inside(loop.body, cst.Yield))

    def _exits(self, loop: cst.For | cst.While) -> Iterator[cst.CSTNode]:
        """What leaves a loop before its end: ``break``, ``return``; not ``raise``, which ends the program."""
        function = self._module.function_of(loop)
        for node in self._tree.inside(loop.body, cst.Break, cst.Return):
            is_inner = isinstance(node, cst.Break) and nearest(self._tree, node, cst.For, cst.While) is not loop
            if not is_inner and self._module.function_of(node) is function:
                yield node

    def _is_switched_off(self, node: cst.CSTNode, dataset: Value) -> bool:
        """Whether ``if not self.repeat: break`` is not reached by a dataset that is created with ``repeat=True``."""
        created = [origin for origin in dataset.origins if isinstance(origin, cst.Call)]
        return bool(created) and any(
            isinstance(test, cst.UnaryOperation)
            and isinstance(test.operator, cst.Not)
            and isinstance(test.expression, cst.Attribute)
            and is_attribute_of_self(test.expression)
            and all(is_true(keyword(call, test.expression.attr.value)) for call in created)
            for branch in branches(self._tree, node, self._module.function_of(node))
            for test in (branch.test,)
            if not branch.is_else
        )
