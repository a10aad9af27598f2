"""Items of dicts that are filled one by one: ``networks["encoder"] = Encoder()``."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.semantics.names import Names
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.tree import Tree

#: An item that is stored at more places than this is unknown.
_MAX_STORES = 16
#: A dict: its dotted name, and the scope or the class it belongs to.
_Home = tuple[str, object]


class Items:
    """Answers for one forest, of dicts that a name of the same scope or an attribute of ``self`` refers to."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names

    def of(self, node: cst.Subscript) -> list[cst.BaseExpression]:
        """What is stored as the item ``node``; of an item whose key is no literal, what is stored under any key."""
        stored = self._stored.get(self._home(node))
        if stored is None:
            return []
        key = _key(node)
        groups = list(stored.values()) if key is None else [stored.get(key, []), stored.get(None, [])]
        if len(groups) > _MAX_STORES or sum(map(len, groups)) > _MAX_STORES:
            return []
        found = [value for group in groups for value in group]
        return [] if None in found else [value for value in found if value is not None]

    @cached_property
    def _stored(self) -> dict[_Home | None, dict[str | None, list[cst.BaseExpression | None]]]:
        """By dict and key what is stored; the key None is any, the value None is one that unpacking gives."""
        found: dict[_Home | None, dict[str | None, list[cst.BaseExpression | None]]] = {}
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript):
                found.setdefault(self._home(target), {}).setdefault(_key(target), []).append(value)
        found.pop(None, None)
        return found

    def _home(self, node: cst.Subscript) -> _Home | None:
        container = node.value
        if isinstance(container, cst.Name):
            scope = self._names.home_of(container)
            return (container.value, scope) if scope is not None else None
        text = dotted_name(container)
        if text is None or not text.startswith("self."):
            return None
        owner = nearest(self._tree, node, cst.ClassDef)
        return (text, owner) if owner is not None else None


def _key(node: cst.Subscript) -> str | None:
    """The literal that the item is stored under; None if it is anything else."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    key = node.slice[0].slice.value
    return repr(key.evaluated_value) if isinstance(key, (cst.SimpleString, cst.Integer)) else None
