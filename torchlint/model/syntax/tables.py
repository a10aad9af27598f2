"""What the traversal of some files notes; when a file changes, the traversal of the others is not repeated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

import libcst as cst

from torchlint.model.syntax.scopes import Scope

_Item = TypeVar("_Item")
_Share = TypeVar("_Share")


class Tables(ABC):
    """The nodes of some files in evaluation order, and those that carry meaning."""

    def __init__(self) -> None:
        self.roots: tuple[cst.Module, ...] = ()
        self.nodes: list[cst.CSTNode] = []
        self._index: dict[cst.CSTNode, int] = {}
        self._parents: list[int] = []
        self._last: list[int] = []  #: by index of a node that of the last node inside it
        self._by_kind: defaultdict[type[cst.CSTNode], list[Any]] = defaultdict(list)
        self.calls: list[cst.Call] = self._by_kind[cst.Call]
        self.functions: list[cst.FunctionDef] = self._by_kind[cst.FunctionDef]
        self.classes: list[cst.ClassDef] = self._by_kind[cst.ClassDef]
        self.withs: list[cst.With] = self._by_kind[cst.With]
        self.strings: list[cst.SimpleString] = self._by_kind[cst.SimpleString]
        self.attributes: list[cst.Attribute] = self._by_kind[cst.Attribute]
        self.loops: list[cst.For | cst.While] = []
        self.imports: list[cst.Import | cst.ImportFrom] = []
        #: the names that imports bind, by the scopes in which they do
        self.imported_names: dict[tuple[Scope, str], None] = {}
        self.stores: list[tuple[cst.BaseExpression, cst.BaseExpression | None, cst.CSTNode]] = []
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self._name_scopes: dict[cst.CSTNode, Scope] = {}
        self._root_indices: list[int] = []
        self._shares: dict[cst.Module, dict[object, Any]] = {}

    def share(self, of_file: Callable[[Any, cst.Module], _Share], root: cst.Module) -> _Share:
        """What a function of the tree and a file gives; kept while the file is part of the tree.

        It must not depend on other files, nor on indices, which change.
        """
        known = self._shares.setdefault(root, {})
        if of_file not in known:
            known[of_file] = of_file(self, root)
        found: _Share = known[of_file]
        return found

    @abstractmethod
    def _walk(self, root: cst.Module) -> None:
        """Note what is in one more file."""

    def _add(self, roots: Sequence[cst.Module]) -> None:
        """Note what is in more files."""
        self.scopes |= {root: Scope(root, None) for root in roots}
        for root in roots:
            begin = len(self.nodes)
            self._root_indices.append(begin)
            self._walk(root)
            self._note_last(begin)

    def _note_last(self, begin: int) -> None:
        """Note the last node inside each node from index ``begin`` on, which is a file."""
        last, parents = self._last, self._parents
        last += range(begin, len(parents))
        for index in range(len(parents) - 1, begin, -1):
            above = parents[index]
            if last[above] == above:  # the first of its children to come is the last one
                last[above] = last[index]

    def change_to(self, roots: Sequence[cst.Module]) -> None:
        """Have these files in place of those before; of them, the first and the last may be the same, and are kept.

        Everything is as if they had been traversed at first, if all bindings are as the traversal made them.
        """
        first, stop = _changed(self.roots, roots)
        begins = [*self._root_indices, len(self.nodes)]
        behind = self._cut(begins[first], begins[stop])
        del self._root_indices[first:]
        self._add(roots[first : len(roots) - len(self.roots) + stop])
        shift = len(self.nodes) - begins[stop]
        self._root_indices += [begin + shift for begin in begins[stop:-1]]
        self._append(behind, shift)
        self.roots = tuple(roots)
        self._shares = {root: self._shares.get(root, {}) for root in roots}
        inner = {node: scope for node, scope in self.scopes.items() if scope.parent is not None}
        self.scopes = {root: self.scopes[root] for root in roots} | inner

    def _cut(self, begin: int, end: int) -> _Behind:
        """Forget all nodes from index ``begin`` on; what was noted of those from ``end`` on."""
        place = self._index.__getitem__
        scopes, imported = [*self.scopes.values()], [*self.imported_names]
        behind = _Behind(
            self.nodes[end:],
            self._parents[end:],
            self._last[end:],
            [_cut(items, begin, end, place) for items in self._lists()],
            _cut(self.stores, begin, end, lambda store: place(store[2])),
            [scope for scope in scopes if place(scope.node) >= end],
            [item for item in imported if place(item[0].node) >= end],
        )
        self.scopes = {scope.node: scope for scope in scopes if place(scope.node) < begin}
        self.imported_names = {item: None for item in imported if place(item[0].node) < begin}
        for node in self.nodes[begin:end]:
            del self._index[node]
            self._name_scopes.pop(node, None)
        del self.nodes[begin:], self._parents[begin:], self._last[begin:]
        return behind

    def _append(self, behind: _Behind, shift: int) -> None:
        """Note again what was noted of nodes whose indices are larger now by ``shift``."""
        if shift:
            self._index.update(zip(behind.nodes, count(len(self.nodes)), strict=False))
            for scope in behind.scopes:
                for bindings in (*scope.bindings.values(), *scope.attributes.values()):
                    for binding in bindings:
                        binding.order += shift
        self.nodes += behind.nodes
        self._last += [index + shift for index in behind.last]
        self._parents += [above + shift if above >= 0 else above for above in behind.parents]
        for items, rest in zip(self._lists(), behind.lists, strict=False):  # new kinds of nodes are the last ones
            items.extend(rest)
        self.stores += behind.stores
        self.scopes |= {scope.node: scope for scope in behind.scopes}
        self.imported_names |= dict.fromkeys(behind.imported_names)

    def _lists(self) -> list[list[Any]]:
        """The lists of nodes in order."""
        return [self.loops, self.imports, *self._by_kind.values()]


class _Behind(NamedTuple):
    """What was noted of the files behind those that change."""

    nodes: list[cst.CSTNode]
    parents: list[int]
    last: list[int]
    lists: list[list[Any]]
    stores: list[Any]
    scopes: list[Scope]
    imported_names: list[tuple[Scope, str]]


def _changed(before: Sequence[cst.Module], after: Sequence[cst.Module]) -> tuple[int, int]:
    """The index of the first file of ``before`` that is not in ``after``, and of the first behind which all are."""
    shorter = min(len(before), len(after))
    first = next((index for index in range(shorter) if before[index] is not after[index]), shorter)
    same = 0
    while same < shorter - first and before[-1 - same] is after[-1 - same]:
        same += 1
    return first, len(before) - same


def _cut(items: list[_Item], begin: int, end: int, place: Callable[[_Item], int]) -> list[_Item]:
    """Remove the items from the index ``begin`` on; those from ``end`` on."""
    behind = items[bisect_left(items, end, key=place) :]
    del items[bisect_left(items, begin, key=place) :]
    return behind
