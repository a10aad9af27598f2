"""Fields of classes without a constructor of their own, such as dataclasses: what calls of the class give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import libcst as cst

from torchlint.model.semantics.classes import Classes
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.parsers import default_of_field
from torchlint.model.semantics.records import Records
from torchlint.model.semantics.value import UNKNOWN, Device, Value, join, named_device
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.tree import Tree

#: Decorators of classes whose instances are only made where a call is seen.
_DATACLASSES = frozenset({"dataclasses.dataclass", "attr.s", "attrs.define", "attrs.frozen"})


class _Instances(Evaluator, Protocol):
    """An evaluator that also knows what an instance of a class is, and which attributes a program sets."""

    records: Records

    def instance(self, definition: cst.ClassDef) -> Value:
        """What an instance of a class of the file is."""


class Fields:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: _Instances) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values

    def given(self, base: Value, name: str) -> Value:
        """What the calls that made the object ``base`` give its field ``name``, or its default; else unknown."""
        owner = base.definition
        if not isinstance(owner, cst.ClassDef) or not base.origins or not self._is_field(owner, name):
            return UNKNOWN
        place = field_names(self._tree, self._definitions, owner).index(name)
        found: list[Value] = []
        for call in base.origins:
            if not isinstance(call, cst.Call) or not _passes_all(call):
                return UNKNOWN
            positional = [item.value for item in call.args if item.keyword is None]
            passed = keyword(call, name) or (positional[place] if place < len(positional) else None)
            found.append(self._default(owner, name) if passed is None else self._values.of(passed))
        value = join(found)
        certain = base.sure and is_dataclass(self._names, owner) and self._definitions.is_known_whole(owner)
        if certain and name not in self._values.records.stores:
            return value
        return replace(value, sure=False)  # a base class or `config.data = ...` may set it, too

    def made(self, call: cst.Call, function: cst.FunctionDef) -> Value:
        """The object of a class that a field of another object names, made by a method: ``config.setup()``.

        The method returns ``self._target(self)``. The object may be of a derived class, as that of a derived
        configuration is.
        """
        returned = self._definitions.returns(function)
        target = returned[0].func if len(returned) == 1 and isinstance(returned[0], cst.Call) else None
        if not isinstance(target, cst.Attribute) or not isinstance(call.func, cst.Attribute):
            return UNKNOWN
        if not self._names.is_self(target.value):
            return UNKNOWN
        named = self.given(self._values.of(call.func.value), target.attr.value)
        if named.kind is not Kind.CLASS or not isinstance(named.definition, cst.ClassDef):
            return UNKNOWN
        return replace(self._values.instance(named.definition), sure=False)

    def replaceable(self, base: Value, name: str, value: Value) -> Value:
        """``value``, the default of the field ``name``, for an object that nothing seen made, or that is filled.

        Its maker, such as a parser of options, may name another device than the CPU: the default is not certain.
        """
        owner = base.definition
        if named_device(value) is not Device.CPU or not isinstance(owner, cst.ClassDef):
            return value
        is_made = bool(base.origins) and all(map(_passes_all, base.origins))
        return replace(value, sure=False) if not is_made and self._is_field(owner, name) else value

    def _is_field(self, owner: cst.ClassDef, name: str) -> bool:
        """Whether ``name`` is annotated in the class, and no method sets it."""
        scopes = [self._tree.scopes[item] for item in self._definitions.lineage(owner)]
        if any(name in scope.attributes for scope in scopes) or self._definitions.method(owner, "__init__") is not None:
            return False
        bound = next((scope.bindings[name] for scope in scopes if name in scope.bindings), [])
        return bool(bound) and all(isinstance(item.node, cst.AnnAssign) for item in bound)

    def _default(self, owner: cst.ClassDef, name: str) -> Value:
        """The default of a field: ``4``, and an object of ``Data`` of ``field(default_factory=Data)``."""
        scopes = (self._tree.scopes[item] for item in self._definitions.lineage(owner))
        node = next(scope.bindings[name][-1].value for scope in scopes if name in scope.bindings)
        factory = keyword(node, "default_factory", "factory") if isinstance(node, cst.Call) else None
        if factory is None or node is None:
            return self._values.of(default_of_field(self._names, node))
        if isinstance(factory, cst.Lambda):
            return self._values.of(factory.body)
        made = self._values.of(factory)
        if made.kind is not Kind.CLASS or not isinstance(made.definition, cst.ClassDef):
            return UNKNOWN
        return replace(self._values.instance(made.definition), origins=frozenset({node}))


def _passes_all(made: cst.CSTNode) -> bool:
    """Whether it is a call that unpacks nothing."""
    return isinstance(made, cst.Call) and not any(item.star for item in made.args)


def field_names(tree: Tree, classes: Classes, definition: cst.ClassDef) -> list[str]:
    """The fields of a class without ``__init__``, in the order in which its calls give them."""
    found = (
        binding.name
        for item in reversed(classes.lineage(definition))
        for bindings in tree.scopes[item].bindings.values()
        for binding in bindings
        if isinstance(binding.node, cst.AnnAssign)
    )
    return list(dict.fromkeys(found))


def is_dataclass(names: Names, definition: cst.ClassDef) -> bool:
    """Whether a class has no decorators but those that make a dataclass of it."""
    decorators = (item.decorator for item in definition.decorators)
    return all(names.resolve(item.func if isinstance(item, cst.Call) else item) in _DATACLASSES for item in decorators)
