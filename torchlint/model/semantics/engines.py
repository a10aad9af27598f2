"""Engines of ignite: the function that each runs for every batch, and the data that it is run on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import ENGINES
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.tree import Tree

_UPDATE = "process_function"


class Engines:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._known_runs: list[tuple[cst.Call, cst.BaseExpression]] | None = None

    @cached_property
    def made(self) -> dict[cst.Call, cst.BaseExpression]:
        """The calls ``Engine(update)``, and what they are given to run for every batch."""
        return {
            call: item.value
            for call in self._names.calls_of(*ENGINES)
            for item in call.args[:1]
            if not item.star and (item.keyword is None or item.keyword.value == _UPDATE)
        }

    @property
    def runs(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls ``engine.run(loader)``, and the data that they are given."""
        if self._known_runs is not None:
            return self._known_runs
        found, is_final = self._values.attempt(lambda: list(self._find_runs()))
        if is_final:
            self._known_runs = found
        return found

    def _find_runs(self) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        for call in self._tree.calls_named("run") if self.made else ():
            if isinstance(call.func, cst.Attribute) and self._engines_of(call):
                given = (item for item in call.args[:1] if not item.star)
                yield from (
                    (call, item.value) for item in given if item.keyword is None or item.keyword.value == "data"
                )

    def _engines_of(self, run: cst.Call) -> list[cst.Call]:
        """The calls that may have made the engine that ``run`` starts."""
        origins = self._values.of(run.func.value).origins if isinstance(run.func, cst.Attribute) else ()
        return [call for call in self.made if call in origins]

    def data_for(self, function: cst.FunctionDef, param: cst.Param) -> list[cst.BaseExpression]:
        """What engines take the batches from that they pass to ``function`` as ``param``."""
        place = 2 if self._tree.class_of(function) is not None else 1  # after `self` and the engine
        if function.params.params[place : place + 1] != (param,):
            return []
        engines = [call for call, update in self.made.items() if function in self._updates(update)]
        return (
            [data for run, data in self.runs if any(call in engines for call in self._engines_of(run))]
            if engines
            else []
        )

    def _updates(self, node: cst.BaseExpression) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions that ``node`` refers to, or that the function called there returns."""
        if not isinstance(node, cst.Call):
            return self._definitions.referenced(node, self._values)
        called = self._definitions.called(node, self._values)
        returned = (
            value for item in called if isinstance(item, cst.FunctionDef) for value in self._definitions.returns(item)
        )
        return [item for value in returned if value is not None for item in self._definitions.named(value)]
