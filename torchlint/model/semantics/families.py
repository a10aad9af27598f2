"""Methods of objects that a program makes out of sight: those of a name that only one family of classes has."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.semantics.classes import Classes
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.abstract import is_abstract
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.tree import Tree
from torchlint.source.method_names import is_of_program

#: A name that more methods have than this is common.
_MAX_METHODS = 24


class Families:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, classes: Classes) -> None:
        self._tree = tree
        self._names = names
        self._classes = classes

    def methods(self, func: cst.Attribute, owner: Value) -> tuple[cst.FunctionDef, ...]:
        """The methods that ``func`` may be, whose object has the value ``owner``; none if that is known.

        So for ``model.optimize_parameters()`` where a string of the options picks the class of the model.
        """
        found = self._methods.get(func.attr.value, ())
        if not found or (owner.kind is not Kind.UNKNOWN and (owner.sure or owner.origins)):
            return ()
        return () if self._is_of_library(func.value) else found

    @cached_property
    def _methods(self) -> dict[str, tuple[cst.FunctionDef, ...]]:
        """By name of several words the methods of it, if all of their classes derive from one."""
        named: dict[str, list[tuple[cst.FunctionDef, cst.ClassDef]]] = {}
        for function in self._tree.functions:
            name = function.name.value
            owner = self._tree.class_of(function) if is_of_program(name) else None
            if owner is not None:
                named.setdefault(name, []).append((function, owner))
        found: dict[str, tuple[cst.FunctionDef, ...]] = {}
        for name, methods in named.items():
            roots = {self._classes.lineage(owner)[-1] for _, owner in methods}
            if len(roots) == 1 and len(methods) <= _MAX_METHODS:
                functions = [function for function, _ in methods]
                found[name] = tuple([item for item in functions if not is_abstract(item)] or functions)
        return found

    def _is_of_library(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is, or was made by, something that is imported from elsewhere."""
        if self._names.resolve(node) is not None:
            return True
        variable = self._names.variable(node)
        if variable is None:
            return not isinstance(node, (cst.Name, cst.Attribute))
        scope, name = variable
        bindings = (*scope.bindings.get(name, ()), *scope.attributes.get(name, ()))
        return any(
            binding.kind is BindingKind.IMPORT
            or (isinstance(binding.value, cst.Call) and self._names.resolve(binding.value.func) is not None)
            for binding in bindings
        )
