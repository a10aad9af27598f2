"""Containers of loaders that a program fills item by item: ``loaders["train"] = ...``, ``loaders.append(...)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names, Variable
from torchlint.model.semantics.value import UNKNOWN, Value, join, join_items
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree

#: A container that is filled in more places is not looked into.
_MAX_PLACES = 12
#: Expressions that may be a loader, or a tuple or dict of loaders.
_MAY_BE_LOADERS = (cst.Call, cst.Name, cst.Attribute, cst.Subscript, cst.Tuple, cst.List, cst.ListComp, cst.Dict)


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

    def filled(self, found: Value, scope: Scope, name: str) -> Value:
        """``found``, the value of a variable of ``scope``, with the loaders that are put into it one by one."""
        items = self._items.get((scope, name), ())
        if found.kind is not Kind.SEQUENCE or found.elements or not 0 < len(items) <= _MAX_PLACES:
            return found
        return self._container(items, [found.each] if found.each is not None else []) or found

    def under(self, found: Value, node: cst.BaseExpression, key: cst.BaseExpression) -> Value:
        """``found``, the value of the container ``node``, with only those of the loaders that may be under ``key``.

        Without any where nothing that may be under ``key`` is a loader.
        """
        variable = self._names.variable(node)
        items = self._items.get(variable, ()) if variable is not None else ()
        if variable is None or found.elements or not 0 < len(items) <= _MAX_PLACES:
            return found
        first, others = self._begun_with(*variable)
        kept = [item for item in (*first, *items) if not self._differ(item.keys[0], key)]
        if kept and not others:
            return self._container(kept, others) or Value(Kind.SEQUENCE)
        return self._container(kept, others) or found

    def _container(self, items: Sequence[_Item], others: list[Value]) -> Value | None:
        """A container of the loaders among ``items`` and, where they are loaders too, ``others``; None without any."""
        direct = [self._values.of(item.value) for item in items if len(item.keys) == 1]
        nested = [self._values.of(item.value) for item in items if len(item.keys) == 2]
        for values in ([*others, *direct], direct or others):
            if self._has_loaders(each := join_items(values)):
                return Value(Kind.SEQUENCE, each=each)
        inside = join(nested)
        return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, each=inside)) if inside.kind is Kind.LOADER else None

    def _begun_with(self, scope: Scope, name: str) -> tuple[list[_Item], list[Value]]:
        """The items of the dicts that a variable is bound to, and what other containers that it is bound to contain."""
        items: list[_Item] = []
        others: list[Value] = []
        for binding in (*scope.bindings.get(name, ()), *scope.attributes.get(name, ())):
            value = binding.value
            if isinstance(value, cst.DictComp) and not binding.path:
                items.append(_Item(value.value, (value.key,)))
            elif isinstance(value, cst.Dict) and not binding.path:
                items += [
                    _Item(item.value, (item.key if isinstance(item, cst.DictElement) else None,))
                    for item in value.elements
                ]
            elif (
                binding.kind is BindingKind.ASSIGN
                and not binding.path
                and (each := self._values.of(value).each) is not None
            ):
                others.append(each)
        return items, others

    def _differ(self, one: cst.BaseExpression | None, other: cst.BaseExpression | None) -> bool:
        """Whether it is known what two keys may be, and they are never the same."""
        if one is None or other is None:
            return False
        keys = self._constants(one), self._constants(other)
        return all(keys) and keys[0].isdisjoint(keys[1])

    def _constants(self, key: cst.BaseExpression) -> frozenset[object]:
        """What a key may be: a literal, or each of those that a loop iterates over; none if unknown."""
        constant = self._values.of(key).constant
        if constant is not None:
            return frozenset({constant})
        bindings = self._names.bindings(key) if isinstance(key, cst.Name) else []
        if any(binding.kind is not BindingKind.FOR or binding.path for binding in bindings):
            return frozenset()
        found = [
            item.constant for binding in bindings for item in self._values.of(binding.value).elements or (UNKNOWN,)
        ]
        return frozenset() if None in found else frozenset(found)

    @cached_property
    def _items(self) -> dict[Variable, list[_Item]]:
        found: dict[Variable, list[_Item]] = {}
        put: list[tuple[cst.BaseExpression, cst.BaseExpression, tuple[cst.BaseExpression | None, ...]]] = []
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                put.append((target, value, ()))
        for call in self._tree.calls_named("append"):
            if type(call.func) is cst.Attribute and len(call.args) == 1:
                put.append((call.func.value, call.args[0].value, (None,)))
        for container, value, keys in put:
            while isinstance(container, cst.Subscript):
                index = container.slice[0].slice
                keys = (index.value if isinstance(index, cst.Index) else None, *keys)
                container = container.value
            variable = self._names.variable(container)
            if variable is not None and isinstance(value, _MAY_BE_LOADERS):
                found.setdefault(variable, []).append(_Item(value, keys))
        return found

    def _has_loaders(self, value: Value) -> bool:
        """Whether a value is a loader, or a tuple, list or dict with loaders: ``folds.append((train, val))``.

        So is an object that is made of a loader: ``data["train"] = DataInfo(loader, sampler)``.
        """
        inside = value.elements if value.each is None else (*value.elements, value.each)
        if value.kind is Kind.OTHER and value.definition is not None:
            made = (call for call in value.origins if isinstance(call, cst.Call))
            return any(self._values.of(item.value).kind is Kind.LOADER for call in made for item in call.args)
        return value.kind is Kind.LOADER or (value.kind is Kind.SEQUENCE and any(map(self._has_loaders, inside)))
