"""Expressions that have the same value at every iteration of a loop, or at every call in it."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.effects import only_computes
from torchlint.model.program.stores import Stores
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name, last_part

#: Methods that set up an object before it is used.
_SETUP = frozenset({"__init__", "__post_init__", "setup", "build", "_build", "init", "_init"})


class Invariance(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def is_invariant(self, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        """Whether ``node``, which is in ``loop``, has the same value at every iteration.

        Nothing in the loop may bind a name in it or store into it, and no method but a constructor may set an
        attribute of ``self`` in it. Its calls only compute.
        """
        if not only_computes(self._forest, node):
            return False
        return all(self._keeps(part, loop) for part in self._tree.nodes_in(node))

    def _keeps(self, part: cst.CSTNode, loop: cst.CSTNode) -> bool:
        if isinstance(part, cst.Name):
            return not self.is_bound_in(part, loop)
        if isinstance(part, cst.Attribute):
            return not self._is_stored_to(part, loop)
        if isinstance(part, cst.Subscript):
            name = dotted_name(part.value)
            return name is None or not self._is_filled(name, loop)
        return not isinstance(part, (cst.Lambda, cst.NamedExpr, cst.Await, cst.Yield))

    def is_bound_in(self, name: cst.Name, loop: cst.CSTNode) -> bool:
        """Whether ``loop`` gives a variable another value."""
        scope = self._forest.names.home_of(name)
        if scope is None:
            return False
        bindings = scope.bindings.get(name.value, ())
        return any(item.kind is not BindingKind.PARAM and self._tree.within(item.node, loop) for item in bindings)

    def _is_stored_to(self, node: cst.Attribute, loop: cst.CSTNode) -> bool:
        """Whether an attribute is assigned in ``loop``, or one of ``self`` in a method that is not its constructor."""
        text = dotted_name(node)
        if text is None:
            return False
        if any(self._tree.within(place, loop) for place in self._stores_to.get(text, ())):
            return True
        function = self._forest.function_of(node)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or not text.startswith("self.") or text.count(".") != 1:
            return False
        for item in self._forest.definitions.lineage(owner):
            for binding in self._tree.scopes[item].attributes.get(node.attr.value, ()):
                place = self._tree.function_of(binding.node)
                setup = isinstance(place, cst.FunctionDef) and place.name.value in _SETUP
                if not setup and (place is not function or self._tree.index(binding.node) > self._tree.index(loop)):
                    return True
        return False

    def _is_filled(self, name: str, loop: cst.CSTNode) -> bool:
        """Whether ``loop`` puts something into the container ``name``."""
        containers = self._forest.fact(Stores).containers.get(last_part(name), ())
        return any(dotted_name(target) == name and self._tree.within(place, loop) for target, _, place in containers)

    @cached_property
    def _stores_to(self) -> dict[str, list[cst.CSTNode]]:
        """The assignments to attributes, by the dotted text of the target."""
        found = defaultdict(list)
        for target, _, statement in self._tree.stores:
            text = dotted_name(target) if isinstance(target, cst.Attribute) else None
            if text is not None:
                found[text].append(statement)
        return dict(found)
