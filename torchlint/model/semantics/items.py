"""Items of dicts: ``networks["encoder"] = Encoder()``, ``LOADERS = {"mnist": {"train": train_loader}}``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.names import Names, Variable
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import index_of
from torchlint.model.syntax.tree import Tree

#: An item that is stored at more places than this is unknown.
_MAX_STORES = 16
#: Methods that put items into a dict.
_FILLING = frozenset({"update", "setdefault"})
#: The keys of an item in a dict of dicts, outermost first: literals, None for anything else.
_Keys = tuple[str | None, ...]


class Items:
    """Answers for one forest, of dicts that a name or an attribute of ``self`` refers to."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names

    def knows(self, node: cst.Subscript) -> bool:
        """Whether ``node`` is an item of a dict that the program writes as a display."""
        variable = self._names.defined(_unrolled(node)[0])
        return variable is not None and next(self._displays(variable), None) is not None

    def of(self, node: cst.Subscript) -> list[cst.BaseExpression]:
        """What is stored as the item ``node``; of an item whose key is not a literal, what is stored under any key."""
        return self._found(*_unrolled(node))

    def all_of(self, container: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What is stored in a dict under any key; nothing if that is unknown."""
        outer, keys = _unrolled(container)
        return self._found(outer, (*keys, None)) if self._is_filled_in_sight(outer) else []

    def _is_filled_in_sight(self, container: cst.BaseExpression) -> bool:
        """Whether a name only refers to a dict that is written out, and only ``nets[key] = net`` puts items into it."""
        variable = self._names.defined(container)
        if variable is None or not isinstance(container, cst.Name):
            return False
        scope, name = variable
        if not all(isinstance(item.value, cst.Dict) and not item.path for item in scope.bindings.get(name, ())):
            return False
        parents = map(self._tree.parent, self._names.uses_anywhere(variable))
        return not any(
            isinstance(parent, cst.Arg) or (isinstance(parent, cst.Attribute) and parent.attr.value in _FILLING)
            for parent in parents
        )

    def _found(self, container: cst.BaseExpression, keys: _Keys) -> list[cst.BaseExpression]:
        variable = self._names.defined(container)
        if variable is None:
            return []
        stored = [((), display) for display in self._displays(variable)]
        found = [
            item for path, value in (*stored, *self._stored.get(variable, ())) for item in _below(path, value, keys)
        ]
        if len(found) > _MAX_STORES or None in found:
            return []
        return [value for value in found if value is not None]

    def taken(self, value: cst.CSTNode) -> Iterator[cst.Subscript | cst.Call]:
        """Where ``value``, which is stored in a dict, may be taken out of it: ``LOADERS[name]["train"]``.

        Also by ``LOADERS.get(name)``, and out of a dict without a name: ``{"small": Small}[name]``.
        """
        keys: _Keys = ()
        parent = self._tree.parent(value)
        while isinstance(parent, cst.DictElement) and value is parent.value:
            keys = (_literal(parent.key), *keys)
            value = self._tree.parent(parent) or value
            parent = self._tree.parent(value)
        if isinstance(value, cst.Dict):
            yield from self._taken_at(value, keys)
        for target in parent.targets if isinstance(parent, cst.Assign) and value is parent.value else ():
            container, outer = _unrolled(target.target)
            variable = self._names.defined(container)
            if variable is None or not (outer or keys) or not isinstance(container, cst.Name):
                continue
            for use in self._names.uses_anywhere(variable):
                yield from self._taken_at(use, (*outer, *keys))

    def _taken_at(self, container: cst.BaseExpression, keys: _Keys) -> Iterator[cst.Subscript | cst.Call]:
        """What takes the item with ``keys`` out of a dict, of dicts or not, where it is used."""
        taken, place = self._item_at(container)
        if _agree(place, keys) and len(place) == len(keys) and isinstance(taken, (cst.Subscript, cst.Call)):
            yield taken

    def _item_at(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, _Keys]:
        """The item of a dict, of dicts or not, that is taken out of it where it is used, and its keys."""
        keys: _Keys = ()
        while (taken := self._read(node)) is not None:
            node, key = taken
            keys = (*keys, key)
        return node, keys

    def _read(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str | None] | None:
        """``nets[key]`` or ``nets.get(key)`` around ``nets``, and the key if it is a literal."""
        parent = self._tree.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            return parent, _key(parent)
        call = self._tree.parent(parent) if isinstance(parent, cst.Attribute) and parent.attr.value == "get" else None
        if isinstance(call, cst.Call) and call.func is parent and call.args:
            return call, _literal(call.args[0].value)
        return None

    def _displays(self, variable: Variable) -> Iterator[cst.Dict]:
        scope, name = variable
        for binding in (*scope.bindings.get(name, ()), *scope.attributes.get(name, ())):
            if isinstance(binding.value, cst.Dict) and binding.kind is BindingKind.ASSIGN and not binding.path:
                yield binding.value

    @cached_property
    def _stored(self) -> dict[Variable, list[tuple[_Keys, cst.BaseExpression | None]]]:
        """By dict what is stored under which keys; the value None is one that unpacking gives."""
        found: dict[Variable, list[tuple[_Keys, cst.BaseExpression | None]]] = {}
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript):
                container, keys = _unrolled(target)
                variable = self._names.defined(container)
                if variable is not None:
                    found.setdefault(variable, []).append((keys, value))
        return found


def _below(path: _Keys, value: cst.BaseExpression | None, keys: _Keys) -> Iterator[cst.BaseExpression | None]:
    """What an item with ``keys`` may be, by what is stored under ``path``; None if that is unknown."""
    if len(path) > len(keys) or not _agree(path, keys):
        return
    if len(path) == len(keys):
        yield value
    elif isinstance(value, cst.Dict):
        for element in value.elements:
            key = _literal(element.key) if isinstance(element, cst.DictElement) else None
            inner = element.value if isinstance(element, cst.DictElement) else None
            yield from _below((*path, key), inner, keys)
    else:
        yield None


def _agree(one: _Keys, other: _Keys) -> bool:
    """Whether keys may be the same, as far as both are given."""
    return all(None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=False))


def _unrolled(node: cst.BaseExpression) -> tuple[cst.BaseExpression, _Keys]:
    """The dict and the keys of ``networks["a"][name]``."""
    keys: _Keys = ()
    while isinstance(node, cst.Subscript):
        keys = (_key(node), *keys)
        node = node.value
    return node, keys


def _key(node: cst.Subscript) -> str | None:
    """The literal that the item is stored under; None if it is anything else."""
    index = index_of(node)
    return None if index is None else _literal(index)


def _literal(node: cst.BaseExpression) -> str | None:
    return repr(node.evaluated_value) if isinstance(node, (cst.SimpleString, cst.Integer)) else None
