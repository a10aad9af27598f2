"""Which expressions of a function refer to the same object or share its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.iterables import iterables
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import bare, called_name, index_of, prefixes
from torchlint.model.syntax.scopes import Binding

#: The parts of an object that lead to another one: names and numbers; None is any.
Path: TypeAlias = tuple[str | int | None, ...]
#: An expression may refer to this many objects at most.
_MAX_ORIGINS = 64
#: Functions that return a container of the same items.
_CONTAINERS = frozenset({"builtins.list", "builtins.tuple", "builtins.reversed", "builtins.iter", "builtins.dict"})
#: Attributes that are numbers and settings, which share nothing with their object.
_PLAIN = frozenset({"device", "dtype", "ndim", "shape"})


@dataclass(frozen=True)
class Origin:
    """A part of what a binding refers to; of a name that nothing binds, its text is the root."""

    root: Binding | str
    path: Path
    node: cst.BaseExpression = field(compare=False)  #: the name, attribute or item that refers to it

    def overlaps(self, other: Origin) -> bool:
        """Whether one of two parts is the other, or contains it."""
        return self.root == other.root and all(
            one is None or two is None or one == two for one, two in zip(self.path, other.path, strict=False)
        )


class Aliases:
    """Answers for one forest, for objects of one kind."""

    def __init__(
        self, forest: Forest, methods: frozenset[str], attributes: frozenset[str], functions: frozenset[str]
    ) -> None:
        """``methods`` and ``attributes`` return the object or a view of it, ``functions`` their first argument."""
        self._forest = forest
        self._methods = methods
        self._attributes = attributes
        self._functions = functions | _CONTAINERS
        self._known: dict[tuple[cst.BaseExpression, Path], tuple[Origin, ...]] = {}
        self._assigned: dict[tuple[str, bool], Mapping[cst.CSTNode | None, Sequence[cst.Assign]]] = {}

    def of(self, node: cst.BaseExpression, path: Path = ()) -> Sequence[Origin]:
        """What ``path`` takes from ``node`` may be: the names and parts that it comes from; empty for what is new."""
        key = (node, path)
        if key not in self._known:
            self._known[key] = tuple(self._find(node, path))
        return self._known[key]

    def shared(self, node: cst.BaseExpression, others: Iterable[Origin], path: Path = ()) -> list[Origin]:
        """The origins of ``node`` that overlap with ``others``."""
        return [found for found in self.of(node, path) if any(found.overlaps(other) for other in others)]

    def _find(self, node: cst.BaseExpression, path: Path) -> Iterator[Origin]:
        waiting: list[tuple[cst.BaseExpression, Path]] = [(node, path)]
        seen: set[tuple[cst.BaseExpression, Path]] = set()
        found: set[Origin] = set()
        while waiting and len(seen) < _MAX_ORIGINS:
            item = waiting.pop()
            if item in seen:
                continue
            seen.add(item)
            expression, path = self._bare(*item)
            if any(isinstance(part, cst.Attribute) and part.attr.value in _PLAIN for part in _chain(expression)):
                continue
            waiting += self._alternatives(expression, path)
            for origin in self._origins(expression, path):
                if origin in found:
                    continue
                found.add(origin)
                yield origin
                if isinstance(origin.root, Binding):
                    waiting += self._bound(origin.root, origin.path)

    def _bare(self, node: cst.BaseExpression, path: Path) -> tuple[cst.BaseExpression, Path]:
        """What ``node`` is a view of, which has other indices: the whole of that instead of a part."""
        whole = bare(node, self._methods, self._attributes, with_arguments=True)
        return (node, path) if whole is node else (whole, ())

    def _origins(self, node: cst.BaseExpression, path: Path) -> Iterator[Origin]:
        """The variables that ``node`` is a part of."""
        top = node
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            step = _before(node, path)
            whole, path = self._bare(node.value, step)
            top = top if whole is node.value else whole
            node = whole
        if isinstance(node, cst.Name):
            for root in self._forest.values.reaching.of(node) or (node.value,):
                yield Origin(root, path, top)

    def _alternatives(self, node: cst.BaseExpression, path: Path) -> Iterator[tuple[cst.BaseExpression, Path]]:
        """Other expressions that may refer to what ``path`` takes from ``node``."""
        if isinstance(node, cst.IfExp):
            yield from ((node.body, path), (node.orelse, path))
        elif isinstance(node, cst.BooleanOperation):
            yield from ((node.left, path), (node.right, path))
        elif isinstance(node, cst.NamedExpr):
            yield node.value, path
        elif isinstance(node, cst.Call):
            yield from self._returned(node, path)
        elif isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            yield from _items(node, path)
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            yield from ((value, path) for value in self._stored(node))
            path = _before(node, path)
            node = node.value
            if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
                yield node, path

    def _returned(self, call: cst.Call, path: Path) -> Iterator[tuple[cst.BaseExpression, Path]]:
        given = call.args[0].value if call.args and not call.args[0].star else None
        if given is not None and self._forest.name_of(call.func) in self._functions:
            yield given, path
        elif isinstance(call.func, cst.Attribute) and called_name(call) in ("get", "pop", "values", "items"):
            key = _token(given) if given is not None else None
            yield call.func.value, (key, *path) if called_name(call) in ("get", "pop") else path
        elif given is not None:
            for function in self._forest.fact(Dispatch).functions(call):
                same = self._forest.values.handed_back.same(call, function, self._forest.values)
                if same is not None:
                    yield same, path

    def _stored(self, node: cst.Attribute | cst.Subscript) -> Iterator[cst.BaseExpression]:
        """What the function around an attribute or item assigns to it."""
        held = node.value if isinstance(node, cst.Subscript) else node
        name = held.attr if isinstance(held, cst.Attribute) else held
        if not isinstance(name, cst.Name):
            return
        assigned = self._assigned_to(name.value, is_item=isinstance(node, cst.Subscript))
        here = assigned.get(self._forest.tree.function_of(node), ()) if assigned else ()
        text = self._forest.code(node) if here else ""
        for place in here:
            if any(item.target is not node and self._forest.code(item.target) == text for item in place.targets):
                yield place.value

    def _assigned_to(self, name: str, *, is_item: bool) -> Mapping[cst.CSTNode | None, Sequence[cst.Assign]]:
        """By function the assignments to attributes called ``name``, or to items of what is called so."""
        if (name, is_item) not in self._assigned:
            stores, found = self._forest.fact(Stores), dict[cst.CSTNode | None, list[cst.Assign]]()
            for _, _, place in (stores.containers if is_item else stores.attributes).get(name, ()):
                if isinstance(place, cst.Assign):
                    found.setdefault(self._forest.tree.function_of(place), []).append(place)
            self._assigned[name, is_item] = found
        return self._assigned[name, is_item]

    def _bound(self, binding: Binding, path: Path) -> Iterator[tuple[cst.BaseExpression, Path]]:
        """What ``path`` takes from the value of a variable."""
        if isinstance(binding.node, cst.AugAssign):
            if isinstance(binding.node.target, cst.Name):
                yield binding.node.target, path
        elif binding.value is not None:
            steps: Path = tuple(None if step < 0 else step for step in binding.path)
            if binding.kind is BindingKind.ASSIGN:
                yield binding.value, (*steps, *path)
            elif binding.kind is BindingKind.FOR:
                for over, rest in iterables(self._forest.names, binding.value, binding.path):
                    is_pair = isinstance(over, cst.Call) and called_name(over) == "items"
                    taken = rest[1:] if is_pair else rest
                    yield over, (None, *(None if step < 0 else step for step in taken), *path)


def _chain(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """``x.shape[0]``, ``x.shape`` and ``x``."""
    yield node
    yield from prefixes(node)


def _before(node: cst.Attribute | cst.Subscript, path: Path) -> Path:
    """The path from ``node.value`` to what ``path`` takes from ``node``."""
    if isinstance(node, cst.Attribute):
        return (node.attr.value, *path)
    index = index_of(node)
    return (None,) if index is None else (_token(index), *path)


def _token(index: cst.BaseExpression) -> str | int | None:
    """A literal index; None for any other, which may be the same as each."""
    if isinstance(index, cst.Integer):
        return index.evaluated_value
    if isinstance(index, cst.SimpleString) and isinstance(index.evaluated_value, str):
        return index.evaluated_value
    return None


def _items(node: cst.Tuple | cst.List | cst.Dict, path: Path) -> Iterator[tuple[cst.BaseExpression, Path]]:
    """The elements of a container that the first step of ``path`` may take."""
    if not path:
        return
    for place, element in enumerate(node.elements):
        key: str | int | None = place
        if isinstance(element, cst.DictElement):
            key = _token(element.key)
        if isinstance(element, (cst.StarredElement, cst.StarredDictElement)):
            yield element.value, path
        elif key is None or path[0] is None or key == path[0]:
            yield element.value, path[1:]
