"""Where the network behind a name, an attribute of ``self`` or an item of a dict may come from."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
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
            else:
                found.append((None, ()))
        return found
