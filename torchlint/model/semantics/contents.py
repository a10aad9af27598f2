"""Containers of loaders that a program fills item by item: ``loaders["train"] = ...``, ``loaders.append(...)``."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.value import Value, join
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree

#: A container that is filled in more places is not looked into.
_MAX_PLACES = 12


@dataclass(frozen=True, eq=False)
class _Item:
    """Something that is put into a container."""

    value: cst.BaseExpression
    keys: tuple[cst.BaseExpression | None, ...]  #: outermost first; None for ``append``


class Contents:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._values = values

    def filled(self, found: Value, scope: Scope, name: str, key: cst.BaseExpression | None = None) -> Value:
        """``found``, the value of a variable of ``scope``, with the loaders that are put into it, or under ``key``."""
        if found.kind is not Kind.SEQUENCE or found.elements:
            return found
        items = [item for item in self._items.get((scope, name), ()) if not self._differ(item.keys[0], key)]
        if not 0 < len(items) <= _MAX_PLACES:
            return found
        direct = join([self._values.of(item.value) for item in items if len(item.keys) == 1])
        nested = join([self._values.of(item.value) for item in items if len(item.keys) == 2])
        if direct.kind is Kind.LOADER:
            return Value(Kind.SEQUENCE, each=direct)
        if nested.kind is Kind.LOADER:
            return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, each=nested))
        return found

    def variable(self, node: cst.BaseExpression) -> tuple[Scope, str] | None:
        """The scope that binds a name, or an attribute of ``self``, and what it is called there."""
        if isinstance(node, cst.Name):
            home = self._names.home_of(node)
            return (home, node.value) if home is not None else None
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
            owner = nearest(self._tree, node, cst.ClassDef)
            return (self._tree.scopes[owner], node.attr.value) if owner is not None else None
        return None

    def _differ(self, one: cst.BaseExpression | None, other: cst.BaseExpression | None) -> bool:
        """Whether two keys are known, and not the same."""
        if one is None or other is None:
            return False
        keys = [self._values.of(one).constant, self._values.of(other).constant]
        return None not in keys and keys[0] != keys[1]

    @cached_property
    def _items(self) -> dict[Hashable, list[_Item]]:
        found: dict[Hashable, list[_Item]] = {}
        put: list[tuple[cst.BaseExpression, cst.BaseExpression, tuple[cst.BaseExpression | None, ...]]] = []
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                put.append((target, value, ()))
        for call in self._tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "append" and len(call.args) == 1:
                put.append((call.func.value, call.args[0].value, (None,)))
        for container, value, keys in put:
            while isinstance(container, cst.Subscript):
                index = container.slice[0].slice
                keys = (index.value if isinstance(index, cst.Index) else None, *keys)
                container = container.value
            variable = self.variable(container)
            if variable is not None and isinstance(value, (cst.Call, cst.Name, cst.Attribute)):
                found.setdefault(variable, []).append(_Item(value, keys))
        return found
