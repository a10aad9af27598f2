"""Data flow: the expressions that a value is computed from, followed back through the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import ADDING, Kind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, Scope, unpacked

#: Methods that put their arguments into the object they are called on.
_FILLING = ADDING | {"push", "add_"}

#: Methods whose result has no graph.
_DETACHING = frozenset({"detach", "item", "tolist", "numpy"})


#: Expressions that take their value from others.
_TAKING = frozenset({cst.Name, cst.Attribute, cst.Call})


class Search:
    """Whether values come from a source, followed back through variables, attributes, containers and functions."""

    def __init__(self, step: Callable[[cst.CSTNode], list[cst.CSTNode] | None], depth: int | None) -> None:
        """``step`` gives the expressions that one takes its value from, None if a part of it is a source."""
        self._step = step
        self._depth = depth
        self._steps: dict[cst.CSTNode, list[cst.CSTNode] | None] = {}
        #: by expression, the depth up to which it was followed without finding a source
        self._without: dict[cst.CSTNode, int] = {}

    def finds(self, expression: cst.CSTNode) -> bool:
        """Whether ``expression`` may take its value from a source, on a way that nothing ends."""
        left = {expression: -1 if self._depth is None else self._depth}  # how much farther each is followed
        waiting = deque(left)
        while waiting:
            node = waiting.popleft()
            if self._depth is not None and left[node] <= self._without.get(node, 0):
                continue
            if node not in self._steps:
                self._steps[node] = self._step(node)
            sources = self._steps[node]
            if sources is None:
                return True
            for source in sources:
                if source not in left:
                    left[source] = left[node] - 1
                    waiting.append(source)
        for node, reached in left.items():
            self._without[node] = max(reached, self._without.get(node, 0))
        return False


class DataFlow(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values
        self._dispatch = module.fact(Dispatch)
        self._parts: dict[cst.CSTNode, tuple[cst.CSTNode, ...]] = {}
        self._sources: dict[tuple[cst.CSTNode, bool], tuple[tuple[cst.CSTNode, bool], ...]] = {}

    def data_parts(self, expression: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """``expression`` and the parts of it that give it data: not the function or network that a call runs.

        What a comprehension iterates over gives it data by the names that it binds.
        """
        if expression not in self._parts:
            self._parts[expression] = tuple(self._find_parts(expression))
        return self._parts[expression]

    def _find_parts(self, expression: cst.CSTNode) -> Iterator[cst.CSTNode]:
        tree = self._tree
        nodes = tree.nodes_in(expression)
        offset = tree.index(expression)
        position = 0
        while position < len(nodes):
            part = nodes[position]
            may_be_callee = position and (type(part) is cst.Name or type(part) is cst.Attribute)
            is_callee = may_be_callee and tree.is_called(part) and self.is_callee(part)
            if is_callee or (type(part) is cst.CompFor and position):
                position = tree.last(part) - offset + 1
                continue
            yield part
            position += 1

    def live_parts(self, expression: cst.CSTNode, ends: Callable[[cst.CSTNode], bool]) -> Iterator[cst.CSTNode]:
        """The parts of ``expression`` that give it data; what ``ends`` is true for is left out, with all inside it."""
        behind = -1
        for part in self.data_parts(expression):
            if self._tree.index(part) <= behind:
                continue
            if ends(part):
                behind = self._tree.last(part)
                continue
            yield part

    def search(
        self,
        is_source: Callable[[cst.CSTNode], bool],
        ends: Callable[[cst.CSTNode], bool],
        *,
        outward: bool = False,
        depth: int | None = None,
    ) -> Search:
        """A search for the sources of values.

        Args:
            is_source: Whether a part is what is looked for.
            ends: Whether the data of a part does not go on from there: ``x.item()`` for a gradient.
            outward: Whether parameters are followed to the callers.
            depth: The maximum number of expressions in a row; None for no limit.
        """

        def step(node: cst.CSTNode) -> list[cst.CSTNode] | None:
            found: list[cst.CSTNode] = []
            for part in self.live_parts(node, ends):
                if is_source(part):
                    return None
                found += [source for source, _ in self.sources(part, outward)]
            return found

        return Search(step, depth)

    def is_callee(self, func: cst.CSTNode) -> bool:
        """Whether ``func`` only says what is called; ``x.mean`` also brings the data ``x``."""
        if not isinstance(func, cst.Attribute):
            return isinstance(func, cst.Name)
        if self._names.resolve(func) is not None or self._values.of(func).kind in (Kind.MODULE, Kind.LOSS):
            return True
        return self._values.of(func.value).kind is Kind.MODULE or dotted_name(func.value) == "self"

    def sources(self, node: cst.CSTNode, outward: bool = False) -> Sequence[tuple[cst.CSTNode, bool]]:
        """The expressions that ``node``, a name, attribute or call, may take its value from.

        With ``outward``, also what the callers of its function pass.
        """
        if type(node) not in _TAKING:
            return ()
        if (node, outward) not in self._sources:
            self._sources[node, outward] = tuple(self._find_sources(node, outward))
        return self._sources[node, outward]

    def _find_sources(self, node: cst.CSTNode, outward: bool) -> Iterator[tuple[cst.CSTNode, bool]]:
        if type(node) is cst.Name:
            yield from self._name_sources(node, outward)
        elif type(node) is cst.Attribute:
            for source in self._attribute_sources(node):
                yield source, True
        elif type(node) is cst.Call:
            for function in self._dispatch.functions(node):
                for item in self._definitions.returns(function):
                    if item is not None:
                        yield item, False
                for item in self._definitions.yields(function):
                    yield item, False
            for binding in self._values.reaching.of(node.func) if isinstance(node.func, cst.Name) else ():
                if isinstance(binding.value, cst.Lambda):
                    yield binding.value.body, False

    def _name_sources(self, node: cst.Name, outward: bool) -> Iterator[tuple[cst.CSTNode, bool]]:
        scope = self._names.home_of(node)
        if scope is None:
            return
        for binding in self._values.reaching.of(node):
            if binding.value is not None and binding.kind in ("assign", "for", "with"):
                yield from ((value, outward) for value in self._bound(binding, binding.value))
            elif isinstance(binding.node, cst.AugAssign):
                yield binding.node.value, outward
                if isinstance(binding.node.target, cst.Name):  # ``total += x`` keeps what was there before
                    yield binding.node.target, outward
            elif outward and isinstance(binding.node, cst.Param):
                function = owner_of(self._tree, binding.node)
                if function is not None:
                    for given in self._dispatch.arguments_for(function, binding.node):
                        yield given, True
        for filled, home in self._fillings.get(node.value, ()):
            if self._names.scope_with(node.value, home) is scope:
                yield filled, outward

    def _bound(self, binding: Binding, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions that a binding gives a name: of ``value`` the part that it takes, where that is known."""
        if binding.kind != "for":
            yield unpacked(value, binding.path) or value
            return
        for over, path in iterables(self._names, value, binding.path):
            if path and isinstance(over, (cst.List, cst.Tuple)):
                yield from (unpacked(item.value, path) or item.value for item in over.elements)
            else:
                yield over

    def _attribute_sources(self, node: cst.Attribute) -> Iterator[cst.CSTNode]:
        text = dotted_name(node)
        if text is None or self._names.resolve(node) is not None:
            return
        yield from (value for value in self._values.stored(text) if value is not None)
        for filled, _ in self._fillings.get(text, ()):
            yield filled
        if text.startswith("self.") and text.count(".") == 1:
            owner = nearest(self._tree, node, cst.ClassDef)
            if owner is not None:
                for binding in self._tree.scopes[owner].attributes.get(node.attr.value, ()):
                    if binding.value is not None:
                        yield binding.value
                    elif isinstance(binding.node, cst.AugAssign):
                        yield binding.node.value

    @cached_property
    def _fillings(self) -> dict[str, list[tuple[cst.BaseExpression, Scope]]]:
        """What is put into containers, or containers in these: ``losses.append(x)``, ``losses["a"]["b"] = x``."""
        found: dict[str, list[tuple[cst.BaseExpression, Scope]]] = {}
        for call in self._tree.calls_named(*_FILLING):
            if isinstance(call.func, cst.Attribute) and call.args:
                text = dotted_name(_outermost(call.func.value))
                if text is not None:
                    items = found.setdefault(text, [])
                    items.extend((argument.value, self._tree.scope_of(call)) for argument in call.args)
        for target, value, statement in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                text = dotted_name(_outermost(target))
                if text is not None:
                    found.setdefault(text, []).append((value, self._tree.scope_of(statement)))
        return found


def _outermost(container: cst.BaseExpression) -> cst.BaseExpression:
    """``losses`` of ``losses[i][j]`` and of ``losses.setdefault(key, [])``."""
    while True:
        if isinstance(container, cst.Subscript):
            container = container.value
        elif isinstance(container, cst.Call) and isinstance(container.func, cst.Attribute):
            if container.func.attr.value != "setdefault":
                return container
            container = container.func.value
        else:
            return container
