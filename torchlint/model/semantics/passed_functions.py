"""Functions and classes that a program passes as values: the calls that run them under another name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import libcst as cst

from torchlint.model.semantics.arguments import Arguments
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.items import Items
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.parameters import owner_of, parameters_of
from torchlint.model.syntax.scopes import Scope, unpacked
from torchlint.model.syntax.tree import Tree

#: How many names, parameters and returns a function is followed through.
_DEPTH = 6
#: A function that is used at more places than this is not followed.
_MAX_USES = 24


class Calls(Protocol):
    """Which calls run a function, and which functions a call runs."""

    def called(self, call: cst.Call, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that ``call`` may run."""

    def reachable(self, func: cst.CSTNode, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that ``func`` may refer to."""

    def method(self, definition: cst.CSTNode, name: str) -> cst.FunctionDef | None:
        """The method called ``name`` of a class or of its bases in the file."""

    def lineage(self, definition: cst.CSTNode) -> tuple[cst.ClassDef, ...]:
        """The class and those of its bases that the file defines."""

    def argument_of(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What ``call`` passes for ``param``."""

    def calls_naming(self, function: cst.FunctionDef, values: Evaluator) -> tuple[cst.Call, ...]:
        """The calls of a function by its own name."""


class PassedFunctions:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, items: Items, arguments: Arguments, calls: Calls) -> None:
        self._tree = tree
        self._names = names
        self._items = items
        self._arguments = arguments
        self._calls = calls

    def calls_of(self, homes: Iterable[tuple[Scope, str]], values: Evaluator) -> list[cst.Call]:
        """The calls of a function by other names than those that ``homes`` bind it to.

        ``return step``, ``launch(step)``, ``run = step``, ``run = partial(step, model)`` and ``def fit(run=step)`` hand
        it on; what ``launch`` then calls is looked for.
        """
        uses = [use for scope, name in homes for use in self._names.uses_of(scope, name)]
        handed = [use for use in uses if not self._tree.is_called(use)]
        if len(handed) > _MAX_USES:
            return []
        found: dict[cst.Call, None] = {}
        seen: set[cst.CSTNode] = set()
        waiting: list[tuple[cst.CSTNode, int]] = [(use, _DEPTH) for use in handed]
        while waiting:
            node, depth = waiting.pop()
            if node in seen or len(seen) > 4 * _MAX_USES:
                continue
            seen.add(node)
            parent = self._tree.parent(node)
            if isinstance(parent, cst.Call) and parent.func is node:
                found[parent] = None
            elif depth > 0:
                waiting += ((other, depth - 1) for other in self._next(node, parent, values))
        return sorted(found, key=self._tree.index)

    def next_calls(self, method: cst.FunctionDef, values: Evaluator) -> list[cst.Call]:
        """The calls ``next(batches)`` that run ``method``, the ``__next__`` of a class."""
        return [
            call
            for call in self._names.calls_of("builtins.next")
            if call.args
            and (owner := values.of(call.args[0].value).definition) is not None
            and self._calls.method(owner, "__next__") is method
        ]

    def _next(self, node: cst.CSTNode, parent: cst.CSTNode | None, values: Evaluator) -> Iterator[cst.CSTNode]:
        """The expressions whose value is that of ``node``, one step on."""
        if isinstance(parent, cst.IfExp) and node is not parent.test:
            yield parent
        elif isinstance(parent, cst.Return):
            function = self._tree.function_of(parent)
            if isinstance(function, cst.FunctionDef):
                yield from self._calls.calls_naming(function, values)
        elif isinstance(parent, cst.Assign):
            for target in parent.targets:
                variable = self._names.variable(target.target)
                if isinstance(target.target, cst.Name) and variable is not None:
                    yield from self._names.uses_in(*variable)
                elif isinstance(target.target, cst.Attribute) and variable is not None:
                    yield from self._kept_in(target.target.attr.value, variable[0], values)
            yield from self._items.taken(node)
        elif isinstance(parent, cst.DictElement):
            yield from self._items.taken(node)
        elif isinstance(parent, cst.Element):
            yield from self._unpacked(parent, values)
        elif isinstance(parent, cst.Param) and node is parent.default:
            function = owner_of(self._tree, parent)
            if function is not None:
                yield from self._names.uses_in(self._tree.scopes[function], parent.name.value)
        elif isinstance(parent, cst.Arg):
            yield from (call.func for call in self._arguments.prepared(parent))
            if self._arguments.is_prepared_by_keywords(parent):
                yield from filter(None, (self._tree.parent(parent),))
            yield from self._as_parameter(node, parent, values)

    def _kept_in(self, name: str, owner: Scope, values: Evaluator) -> Iterator[cst.CSTNode]:
        """Where the attribute ``name`` of objects of a class is read: ``self.step`` of ``self.step = step``."""
        uses = self._tree.attributes_named(name)
        for use in uses if len(uses) <= 4 * _MAX_USES else ():
            definition = values.of(use.value).definition
            if definition is not None and owner.node in self._calls.lineage(definition):
                yield use

    def _unpacked(self, element: cst.Element, values: Evaluator) -> Iterator[cst.CSTNode]:
        """Where what a tuple contains as ``element`` is used once it is unpacked: ``step, name = setup(mode)``."""
        pack = self._tree.parent(element)
        above = self._tree.parent(pack) if isinstance(pack, cst.Tuple) else None
        if not isinstance(pack, cst.Tuple) or any(isinstance(item, cst.StarredElement) for item in pack.elements):
            return
        function = self._tree.function_of(above) if isinstance(above, cst.Return) else None
        returned = self._calls.calls_naming(function, values) if isinstance(function, cst.FunctionDef) else ()
        position = next(index for index, item in enumerate(pack.elements) if item is element)
        for statement in (above, *map(self._tree.parent, returned)):
            for target in statement.targets if isinstance(statement, cst.Assign) else ():
                taken = unpacked(target.target, (position,))
                variable = self._names.variable(taken) if isinstance(taken, cst.Name) else None
                if variable is not None:
                    yield from self._names.uses_in(*variable)

    def _as_parameter(self, node: cst.CSTNode, argument: cst.Arg, values: Evaluator) -> Iterator[cst.CSTNode]:
        call = self._tree.parent(argument)
        if not isinstance(call, cst.Call) or argument.star:
            return
        for definition in self._calls.called(call, values):
            function = definition if isinstance(definition, cst.FunctionDef) else None
            if isinstance(definition, cst.ClassDef):
                function = self._calls.method(definition, "__init__")
            for param in parameters_of(function) if function is not None else ():
                if function is not None and self._calls.argument_of(call, function, param) is node:
                    yield from self._names.uses_in(self._tree.scopes[function], param.name.value)
