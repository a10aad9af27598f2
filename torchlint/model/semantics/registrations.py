"""Tables that decorators fill: where the functions and classes that ``@register("name")`` stores are taken out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from torchlint.model.semantics.classes import Classes
from torchlint.model.semantics.names import Names, Variable
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import index_of, last_name
from torchlint.model.syntax.parameters import class_parameter, owner_of, positional_parameters
from torchlint.model.syntax.tree import Tree

#: A table with more definitions than this gives an unknown one.
_MAX_REGISTERED = 40
#: How many functions return what another one takes out of a table.
_DEPTH = 2
_Definition = cst.FunctionDef | cst.ClassDef


class _Table(NamedTuple):
    """A dictionary at the top level of a module or of a class, or one in it: ``cls.mapping["model"]``."""

    variable: Variable
    keys: tuple[str, ...]


class _Entry(NamedTuple):
    """What is stored in a table, and the literal that the decorator gets; None if it gets none."""

    definition: _Definition
    name: str | None


class Registrations:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, classes: Classes) -> None:
        self._tree = tree
        self._names = names
        self._classes = classes

    def taken(self, node: cst.CSTNode) -> list[_Definition]:
        """What ``TABLE[name]`` or ``cls.tables["model"].get(name)`` may be; empty for anything else."""
        if not self._tables:
            return []
        read = _read(node)
        table = self._table(read[0]) if read is not None else None
        if read is None or table is None:
            return []
        return self._entries(table, read[1])

    def given(self, call: cst.CSTNode) -> list[_Definition]:
        """What a call of a function that returns an entry may give: ``registry.get_model_class(name)``."""
        if not self._tables or not isinstance(call, cst.Call):
            return []
        found = self._getters.get(last_name(call.func), ())
        table = next((table for function, table in found if self._is_of(call.func, function)), None)
        key = call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
        return self._entries(table, key) if table is not None else []

    def _entries(self, table: _Table, key: cst.BaseExpression | None) -> list[_Definition]:
        name = _literal(key)
        entries = self._tables.get(table, [])
        found = [item.definition for item in entries if name is None or item.name in (name, None)]
        return found if len(found) <= _MAX_REGISTERED else []

    @cached_property
    def _tables(self) -> dict[_Table, list[_Entry]]:
        """By table what decorators store in it."""
        found: dict[_Table, list[_Entry]] = {}
        registering = self._registering
        definitions: tuple[_Definition, ...] = (*self._tree.classes, *self._tree.functions) if registering else ()
        for definition in definitions:
            for item in definition.decorators:
                called = item.decorator
                func = called.func if isinstance(called, cst.Call) else called
                for function, table, is_factory in registering.get(last_name(func), ()):
                    if is_factory is isinstance(called, cst.Call) and self._is_of(func, function):
                        name = _literal(called.args[0].value) if isinstance(called, cst.Call) and called.args else None
                        found.setdefault(table, []).append(_Entry(definition, name))
        return found

    @cached_property
    def _registering(self) -> dict[str, list[tuple[cst.FunctionDef, _Table, bool]]]:
        """By name the functions that store what they decorate, with the table, and whether they return a decorator."""
        found: dict[str, list[tuple[cst.FunctionDef, _Table, bool]]] = {}
        for target, value, _ in self._tree.stores:
            if not isinstance(target, cst.Subscript) or not isinstance(value, cst.Name):
                continue
            param = self._names.parameter(value)
            function = owner_of(self._tree, param) if param is not None else None
            table = self._table(target.value) if function is not None else None
            if function is None or table is None or not self._decorates(function, param):
                continue
            outer = self._tree.function_of(function)
            if outer is None:
                found.setdefault(function.name.value, []).append((function, table, False))
            elif isinstance(outer, cst.FunctionDef) and self._returns(outer, function.name.value):
                found.setdefault(outer.name.value, []).append((outer, table, True))
        return found

    def _decorates(self, function: cst.FunctionDef, param: cst.Param | None) -> bool:
        """Whether ``param`` is the only parameter of a function, but for ``self`` or ``cls``."""
        own = [*positional_parameters(function)]
        if self._tree.class_of(function) is not None and own and own[0] is not param:
            own = own[1:]
        return own == [param]

    def _returns(self, function: cst.FunctionDef, name: str) -> bool:
        return any(isinstance(item, cst.Name) and item.value == name for item in self._returned.get(function, ()))

    @cached_property
    def _returned(self) -> dict[cst.CSTNode, list[cst.BaseExpression]]:
        """By function what it returns."""
        found: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        for end in self._tree.of_kind(cst.Return):
            function = self._tree.function_of(end)
            if function is not None and end.value is not None:
                found.setdefault(function, []).append(end.value)
        return found

    @cached_property
    def _getters(self) -> dict[str, list[tuple[cst.FunctionDef, _Table]]]:
        """By name the functions that return an entry of a table."""
        found: dict[str, list[tuple[cst.FunctionDef, _Table]]] = {}
        known: set[cst.CSTNode] = set()
        for _ in range(_DEPTH):
            new: list[tuple[cst.FunctionDef, _Table]] = []
            for function, returned in self._returned.items():
                tables = {self._source(item, found) for item in returned} if function not in known else set()
                table = next(iter(tables)) if len(tables) == 1 else None
                if table is not None and isinstance(function, cst.FunctionDef):
                    new.append((function, table))
            for function, table in new:
                known.add(function)
                found.setdefault(function.name.value, []).append((function, table))
        return found

    def _source(
        self, node: cst.BaseExpression, getters: dict[str, list[tuple[cst.FunctionDef, _Table]]]
    ) -> _Table | None:
        """The table that a returned expression is an entry of, also under a name."""
        if isinstance(node, cst.Name):
            bound = self._names.bindings(node)
            value = bound[0].value if len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN else None
            node = value if value is not None and not bound[0].path else node
        read = _read(node)
        table = self._table(read[0]) if read is not None else None
        if table in self._tables:
            return table
        if not isinstance(node, cst.Call):
            return None
        known = getters.get(last_name(node.func), ())
        return next((item for function, item in known if self._is_of(node.func, function)), None)

    def _is_of(self, func: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether ``func`` refers to a function, or to a method of a class or of the object that a module makes."""
        if isinstance(func, cst.Name):
            return function in self._classes.named(func)
        owner = self._tree.class_of(function)
        if not isinstance(func, cst.Attribute):
            return False
        if owner is None:
            return function in self._classes.named(func)  # `registry.register`, of a module
        return any(owner in self._classes.lineage(item) for item in self._classes_of(func.value))

    def _classes_of(self, node: cst.BaseExpression) -> Sequence[cst.CSTNode]:
        """The class that ``node`` names, or that of the object which it names: ``registry = Registry()``."""
        named = self._classes.named(node)
        variable = self._names.defined(node) if isinstance(node, cst.Name) and not named else None
        if variable is None:
            return named
        bound = variable[0].bindings.get(variable[1], [])
        made = bound[0].value if len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN else None
        return self._classes.named(made.func) if isinstance(made, cst.Call) and not bound[0].path else []

    def _table(self, node: cst.BaseExpression) -> _Table | None:
        """The table that ``node`` is: ``TABLE``, ``cls.mapping["model"]``, ``Registry.mapping``."""
        keys: tuple[str, ...] = ()
        while isinstance(node, cst.Subscript):
            key = _literal(index_of(node))
            if key is None:
                return None
            node, keys = node.value, (key, *keys)
        if isinstance(node, cst.Name):
            variable = self._names.defined(node)
            is_of_module = variable is not None and self._tree.parent(variable[0].node) is None
            return _Table(variable, keys) if variable is not None and is_of_module else None
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            return None
        param = self._names.parameter(node.value)
        own = class_parameter(self._tree, param) if param is not None else None
        for owner in [own] if own is not None else self._classes.named(node.value):
            for item in self._classes.lineage(owner):
                scope = self._tree.scopes[item]
                if node.attr.value in scope.bindings:
                    return _Table((scope, node.attr.value), keys)
        return None


def _read(node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression | None] | None:
    """The dictionary and the key of ``table[name]`` and ``table.get(name, None)``."""
    if isinstance(node, cst.Subscript):
        return node.value, index_of(node)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get":
        return (node.func.value, node.args[0].value) if node.args else None
    return None


def _literal(node: cst.BaseExpression | None) -> str | None:
    return node.raw_value if isinstance(node, cst.SimpleString) else None
