"""Where the network behind a name, an attribute of ``self``, an item of a dict or a loop variable may come from."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.iterables import iterables
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding


class NetworkOrigins(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values

    def of(
        self, node: cst.Name | cst.Attribute | cst.Subscript, path: tuple[int, ...]
    ) -> list[tuple[cst.BaseExpression | None, tuple[int, ...]]]:
        """What may be bound to it: each expression with the part taken from it."""
        if isinstance(node, cst.Subscript):
            return [(item, path) for item in self._definitions.items.of(node)] or [(None, path)]
        bindings: list[Binding] = []
        if isinstance(node, cst.Name):
            if self._names.home_of(node) is None:
                return [(None, ())]
            bindings = self._values.reaching.of(node)
        elif dotted_name(node.value) == "self":
            owner = self._values.of(node.value).definition
            for definition in self._definitions.lineage(owner) if owner is not None else ():
                bindings = bindings or self._tree.scopes[definition].attributes.get(node.attr.value, [])
            # `self.model = wrap(self.model)` says nothing of where it comes from
            bindings = [item for item in bindings if item.value is None or not self._tree.within(node, item.value)]
        found: list[tuple[cst.BaseExpression | None, tuple[int, ...]]] = []
        for binding in bindings:
            if isinstance(binding.node, cst.Param):
                function = owner_of(self._tree, binding.node)
                given: list[cst.BaseExpression] = []
                if function is not None:
                    given = self._definitions.arguments_for(function, binding.node, self._values)
                found.extend((value, path) for value in given)
                if not given:
                    found.append((None, path))
            elif binding.kind is BindingKind.ASSIGN:
                if is_none(binding.value):
                    continue
                found.append((binding.value, (*binding.path, *path)))
            elif binding.kind is BindingKind.FOR and binding.value is not None:
                listed = iterables(self._names, binding.value, (*binding.path, *path))
                found.extend(item for over, part in listed for item in self._listed(over, part))
            else:
                found.append((None, ()))
        return found

    def _listed(
        self, over: cst.BaseExpression, path: tuple[int, ...]
    ) -> list[tuple[cst.BaseExpression | None, tuple[int, ...]]]:
        """What a loop takes from a list that is written out, or from a dict: ``for name, net in networks.items():``."""
        items: list[cst.BaseExpression] = []
        if isinstance(over, (cst.List, cst.Tuple)):
            items = [item.value for item in over.elements if isinstance(item, cst.Element)]
            items = items if len(items) == len(over.elements) else []
        elif isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) and not over.args:
            if over.func.attr.value == "values" or (over.func.attr.value == "items" and path[:1] == (1,)):
                items = self._definitions.items.all_of(over.func.value)
                path = path[1:] if over.func.attr.value == "items" else path
        return [(item, path) for item in items] or [(None, ())]
