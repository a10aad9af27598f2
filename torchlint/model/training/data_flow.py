"""Data flow: the expressions that a value is computed from, followed back through the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import ADDING, Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, Scope, unpacked

#: Methods that put their arguments into the object they are called on.
_FILLING = ADDING | {"push", "add_"}

#: Methods whose result has no graph.
_DETACHING = frozenset({"detach", "item", "tolist", "numpy"})


@dataclass(frozen=True)
class Taken:
    """What an assignment takes of the tuple that a function of the program returns: ``_, target = self.run(x)``."""

    call: cst.Call
    path: tuple[int, ...]


#: An expression, or an element of what one gives.
Item: TypeAlias = cst.CSTNode | Taken
#: Those that take their value from others.
_TAKING = frozenset({cst.Name, cst.Attribute, cst.Call, Taken})


class Search:
    """Whether values come from a source, followed back through variables, attributes, containers and functions."""

    def __init__(self, step: Callable[[Item], list[Item] | None], depth: int | None) -> None:
        """``step`` gives the expressions that one takes its value from, None if a part of it is a source."""
        self._step = step
        self._depth = depth
        self._steps: dict[Item, list[Item] | None] = {}
        #: by expression, the depth up to which it was followed without finding a source
        self._without: dict[Item, int] = {}

    def finds(self, expression: cst.CSTNode) -> bool:
        """Whether ``expression`` may take its value from a source, on a way that nothing ends."""
        left: dict[Item, int] = {
            expression: -1 if self._depth is None else self._depth
        }  # how much farther each is followed
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

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._dispatch = forest.fact(Dispatch)
        self._parts: dict[cst.CSTNode, tuple[cst.CSTNode, ...]] = {}
        self._sources: dict[tuple[Item, bool], tuple[tuple[Item, bool], ...]] = {}

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

        def step(item: Item) -> list[Item] | None:
            found: list[Item] = []
            for part, sources in self.steps(item, ends, outward):
                if is_source(part):
                    return None
                found += [source for source, _ in sources]
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
        found = self._items(node, outward)
        return tuple((item.call if isinstance(item, Taken) else item, out) for item, out in found)

    def steps(
        self, item: Item, ends: Callable[[cst.CSTNode], bool], outward: bool = False
    ) -> Iterator[tuple[cst.CSTNode, Sequence[tuple[Item, bool]]]]:
        """The live parts of ``item``, each with what it may take its value from: of a tuple only what is taken."""
        whole = item.call if isinstance(item, Taken) else item
        for part in self.live_parts(whole, ends):
            yield part, self._items(item if part is whole else part, outward)

    def _items(self, item: Item, outward: bool) -> Sequence[tuple[Item, bool]]:
        if type(item) not in _TAKING:
            return ()
        if (item, outward) not in self._sources:
            self._sources[item, outward] = tuple(self._find_sources(item, outward))
        return self._sources[item, outward]

    def _find_sources(self, item: Item, outward: bool) -> Iterator[tuple[Item, bool]]:
        if isinstance(item, Taken):
            yield from self._call_sources(item.call, item.path)
        elif type(item) is cst.Name:
            yield from self._name_sources(item, outward)
        elif type(item) is cst.Attribute:
            for source in self._attribute_sources(item):
                yield source, True
        elif type(item) is cst.Call:
            yield from self._call_sources(item, ())

    def _call_sources(self, call: cst.Call, path: tuple[int, ...]) -> Iterator[tuple[Item, bool]]:
        for function in self._dispatch.functions(call):
            for returned in self._definitions.returns(function):
                if returned is not None:
                    yield _element(returned, path), False
            for item in self._definitions.yields(function):
                yield item, False
        for binding in self._values.reaching.of(call.func) if isinstance(call.func, cst.Name) else ():
            if isinstance(binding.value, cst.Lambda):
                yield _element(binding.value.body, path), False

    def _name_sources(self, node: cst.Name, outward: bool) -> Iterator[tuple[Item, bool]]:
        scope = self._names.home_of(node)
        if scope is None:
            return
        for binding in self._values.reaching.of(node):
            if binding.value is not None and binding.kind in (BindingKind.ASSIGN, BindingKind.FOR, BindingKind.WITH):
                yield from ((value, outward) for value in self._bound(binding, binding.value))
            elif isinstance(binding.node, cst.AugAssign):
                yield binding.node.value, outward
                if isinstance(binding.node.target, cst.Name):  # ``total += x`` keeps what was there before
                    yield binding.node.target, outward
            elif outward and isinstance(binding.node, cst.Param):
                function = owner_of(self._tree, binding.node)
                if function is not None:
                    for given in self._passed(function, binding.node):
                        yield given, True
        for filled, container in self._fillings.get(node.value, ()):
            if self._names.scope_with(node.value, self._tree.scope_of(container)) is scope:
                if self._may_be_same(container, node, scope):
                    yield filled, outward

    def _may_be_same(self, container: cst.CSTNode, node: cst.Name, scope: Scope) -> bool:
        """Whether a name may be what is filled under it: not where each is a list that another branch makes."""
        if len(scope.bindings.get(node.value, ())) < 2 or not isinstance(container, cst.Name):
            return True
        if self._tree.function_of(container) is not self._tree.function_of(node):
            return True
        filled, read = self._values.reaching.of(container), self._values.reaching.of(node)
        return not filled or not read or any(binding in read for binding in filled)

    def _passed(self, function: cst.FunctionDef, param: cst.Param) -> Iterator[Item]:
        """What the callers of a function pass for a parameter, also in ``*items``."""
        yield from self._dispatch.arguments_for(function, param)
        for call in self._dispatch.callers(function):
            if any(item.star == "*" for item in call.args):
                found = self._definitions.arguments.in_starred(call, function, param)
                if found is not None:
                    yield _element(found[0], (found[1],))

    def _bound(self, binding: Binding, value: cst.BaseExpression) -> Iterator[Item]:
        """The expressions that a binding gives a name: of ``value`` the part that it takes, where that is known."""
        if binding.kind is not BindingKind.FOR:
            yield _element(value, binding.path)
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
        is_own = text.startswith("self.")
        owner = nearest(self._tree, node, cst.ClassDef) if is_own else None
        for value in self._values.stored(text):
            if value is not None and not (is_own and self._are_apart(owner, nearest(self._tree, value, cst.ClassDef))):
                yield value
        for filled, _ in self._fillings.get(text, ()):
            yield filled
        if is_own and text.count(".") == 1:
            if owner is not None:
                for binding in self._tree.scopes[owner].attributes.get(node.attr.value, ()):
                    if binding.value is not None:
                        yield binding.value
                    elif isinstance(binding.node, cst.AugAssign):
                        yield binding.node.value

    def _are_apart(self, owner: cst.ClassDef | None, other: cst.ClassDef | None) -> bool:
        """Whether two classes have no object in common: each has a ``self.hidden`` of its own."""
        return owner is not None and other is not None and owner is not other and other not in self._relatives[owner]

    @cached_property
    def _relatives(self) -> dict[cst.CSTNode, set[cst.CSTNode]]:
        """By class those that an object of it may also be of: they have a class in common that derives from both."""
        found: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        for definition in self._tree.classes:
            lineage = self._definitions.lineage(definition)
            for item in lineage:
                found.setdefault(item, set()).update(lineage)
        return found

    @cached_property
    def _fillings(self) -> dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]]:
        """What is put into containers, each with its container: ``losses.append(x)``, ``losses["a"]["b"] = x``."""
        found: dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]] = {}
        for call in self._tree.calls_named(*_FILLING):
            if isinstance(call.func, cst.Attribute) and call.args and not self._is_of_meter(call):
                container = _outermost(call.func.value)
                text = dotted_name(container)
                if text is not None:
                    found.setdefault(text, []).extend((argument.value, container) for argument in call.args)
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                container = _outermost(target)
                text = dotted_name(container)
                if text is not None:
                    found.setdefault(text, []).append((value, container))
        return found

    def _is_of_meter(self, call: cst.Call) -> bool:
        """Whether ``meters.update(loss=loss)`` runs a method of the program: no dict, it decides where values go."""
        return all(item.keyword is not None or item.star == "**" for item in call.args) and bool(
            self._dispatch.functions(call)
        )


def _element(value: cst.BaseExpression, path: tuple[int, ...]) -> Item:
    """What unpacking by ``path`` takes of an expression; all of it where that is not known."""
    found = unpacked(value, path)
    if found is not None:
        return found
    return Taken(value, path) if isinstance(value, cst.Call) else value


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
