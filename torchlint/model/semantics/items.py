"""Items of dicts that are filled one by one: ``networks["encoder"] = Encoder()``."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.semantics.names import Names, Variable
from torchlint.model.syntax.tree import Tree

#: An item that is stored at more places than this is unknown.
_MAX_STORES = 16


class Items:
    """Answers for one forest, of dicts that a name of the same scope or an attribute of ``self`` refers to."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names

    def of(self, node: cst.Subscript) -> list[cst.BaseExpression]:
        """What is stored as the item ``node``; of an item whose key is no literal, what is stored under any key."""
        stored = self._stored.get(self._names.variable(node.value))
        if stored is None:
            return []
        key = _key(node)
        groups = list(stored.values()) if key is None else [stored.get(key, []), stored.get(None, [])]
        if len(groups) > _MAX_STORES or sum(map(len, groups)) > _MAX_STORES:
            return []
        found = [value for group in groups for value in group]
        return [] if None in found else [value for value in found if value is not None]

    @cached_property
    def _stored(self) -> dict[Variable | None, dict[str | None, list[cst.BaseExpression | None]]]:
        """By dict and key what is stored; the key None is any, the value None is one that unpacking gives."""
        found: dict[Variable | None, dict[str | None, list[cst.BaseExpression | None]]] = {}
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript):
                found.setdefault(self._names.variable(target.value), {}).setdefault(_key(target), []).append(value)
        found.pop(None, None)
        return found


def _key(node: cst.Subscript) -> str | None:
    """The literal that the item is stored under; None if it is anything else."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    key = node.slice[0].slice.value
    return repr(key.evaluated_value) if isinstance(key, (cst.SimpleString, cst.Integer)) else None
