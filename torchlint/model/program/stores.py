"""What a program assigns to attributes and puts into containers."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import LIST_ADDING

#: Methods whose last argument a container then contains under a name or an index: not those of sets and meters.
_PUTS = LIST_ADDING | {"setdefault", "add_module", "register_module"}


class Stores(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names

    @cached_property
    def attributes(self) -> dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression, cst.CSTNode]]]:
        """What is assigned to attributes: by name, the object, the value and the statement."""
        found = defaultdict(list)
        for target, value, statement in self._tree.stores:
            if isinstance(target, cst.Attribute) and value is not None:
                found[target.attr.value].append((target.value, value, statement))
        for call in self._names.calls_of("builtins.setattr"):
            if len(call.args) == 3:
                name = call.args[1].value
                if isinstance(name, cst.SimpleString) and isinstance(name.evaluated_value, str):
                    found[name.evaluated_value].append((call.args[0].value, call.args[2].value, call))
        return dict(found)

    @cached_property
    def object_names(self) -> frozenset[str]:
        """The names of attributes that may refer to an object or a function of the program, methods left aside."""
        bound = {
            name
            for node, scope in self._tree.scopes.items()
            if isinstance(node, (cst.ClassDef, cst.Module))
            for name, bindings in scope.bindings.items()
            if not all(isinstance(item.node, cst.FunctionDef) and not item.node.decorators for item in bindings)
        }
        return frozenset(bound | self.attributes.keys())

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The names of attributes that are read, and not called at once."""
        return frozenset(
            name
            for name, nodes in self._tree.attributes_by_name.items()
            if not all(self._tree.is_called(node) for node in nodes)
        )

    @cached_property
    def containers(self) -> dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression, cst.CSTNode]]]:
        """What is put into containers: by the last name of the container, it, the value and the statement."""
        found = defaultdict(list)
        for target, value, statement in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                found[trailing_name(target.value)].append((target.value, value, statement))
        for call in self._tree.calls_named(*_PUTS):
            if isinstance(call.func, cst.Attribute) and call.args:
                found[trailing_name(call.func.value)].append((call.func.value, call.args[-1].value, call))
        for call in self._names.calls_of("builtins.setattr"):
            if len(call.args) == 3:
                found[trailing_name(call.args[0].value)].append((call.args[0].value, call.args[2].value, call))
        return dict(found)


def trailing_name(node: cst.CSTNode) -> str:
    """``append`` for ``self.items.append(x)``, ``items`` for ``self.items``; "" for other expressions."""
    if isinstance(node, cst.Call):
        return trailing_name(node.func)
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
