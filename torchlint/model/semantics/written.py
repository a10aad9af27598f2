"""Where a setting is written: the expressions that a name, an attribute or a parameter takes its value from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.fields import field_names, is_dataclass
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.parsers import default_of_field
from torchlint.model.semantics.value import Value
from torchlint.model.semantics.values import Values
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import is_super_call
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.literals import is_constant_name
from torchlint.model.syntax.parameters import first_parameter, is_run_as_called, owner_of, parameters_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.syntax.tree import Tree

#: Calls that may bind any name of a module, or call any function of it.
_DO_ANYTHING = frozenset({"builtins.exec", "builtins.globals", "fire.Fire"})


@dataclass(frozen=True)
class Sources:
    """The expressions that a value comes from."""

    values: tuple[cst.BaseExpression, ...]  #: at least one
    complete: bool  #: False: who starts the program, or code out of sight, may give another value


class Written:
    """Answers for one forest."""

    def __init__(
        self, tree: Tree, names: Names, definitions: Definitions, values: Values, packaged: Collection[cst.CSTNode]
    ) -> None:
        """`packaged` are the roots of files whose functions code out of sight may call."""
        self._packaged = packaged
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._records = values.records

    def sources(self, node: cst.CSTNode) -> Sources | None:
        """What ``node``, a name or an attribute, may be set to, one step back; None if unknown."""
        return self._values.guard((Written, node), lambda: self._find_sources(node), None)[0]

    def _find_sources(self, node: cst.CSTNode) -> Sources | None:
        if isinstance(node, cst.Name):
            reached = self._values.reaching.of(node)
            return self.of_bindings(reached) if reached else None
        return self._of_attribute(node) if isinstance(node, cst.Attribute) else None

    def of_bindings(self, bindings: list[Binding]) -> Sources | None:
        """What ``bindings`` of one name give it."""
        found: list[cst.BaseExpression] = []
        complete = True
        for binding in bindings:
            if binding.kind is BindingKind.ANNOTATION:
                continue  # `workers: int` gives nothing
            if binding.kind is BindingKind.PARAM and isinstance(binding.node, cst.Param):
                given = self._of_parameter(binding.node)
                if given is None:
                    return None
                found += given.values
                complete = complete and given.complete
                continue
            if binding.kind is BindingKind.FOR:
                given = self._of_loop(binding)
                if given is None:
                    return None
                found += given.values
                complete = complete and given.complete
                continue
            value = unpacked(binding.value, binding.path) if binding.kind is BindingKind.ASSIGN else None
            if value is None:
                return None
            found.append(value)
            if isinstance(self._tree.scope_of(binding.node).node, cst.Module):
                stored = self._stored_in_module(binding)
                if stored is None:
                    return None
                found += stored
                complete = complete and not self._does_anything
        return Sources(tuple(found), complete) if found else None

    def _of_loop(self, binding: Binding) -> Sources | None:
        """What a loop over lists that are written out gives a variable."""
        origins = list(iterables(self._names, binding.value, binding.path)) if binding.value is not None else []
        if len(origins) != 1:
            return None
        over, path = origins[0]
        lists = self.sources(over) if isinstance(over, cst.Name) else Sources((over,), True)
        values: list[cst.BaseExpression | None] = []
        for item in lists.values if lists is not None else ():
            if not isinstance(item, (cst.List, cst.Tuple)):
                return None
            values += [unpacked(element.value, path) for element in item.elements]
            if any(isinstance(element, cst.StarredElement) for element in item.elements):
                return None
        known = [value for value in values if value is not None]
        return Sources(tuple(known), lists.complete) if lists and known and len(known) == len(values) else None

    # -- parameters

    def _of_parameter(self, param: cst.Param) -> Sources | None:
        function = owner_of(self._tree, param)
        if function is None:
            return None
        owner = self._tree.class_of(function)
        if owner is not None and first_parameter(function) is param:
            return None
        declared = self._values.parsers.of_command(function, param.name.value)
        if declared:
            values = tuple(value for value in declared if value is not None)
            return Sources(values, False) if values else None
        calls, complete = self.calls_of(function)
        default = default_of_field(self._names, param.default)
        found: list[cst.BaseExpression] = []
        for call in calls:
            given = self._definitions.argument_of(call, function, param)
            if given is None:
                if any(argument.star == "*" for argument in call.args):
                    return None
                entries = self._definitions.arguments.unpacked(call, param)
                if entries is not None:
                    seen = [value for value in entries.values if self._is_traced(value)]
                    found += seen
                    complete = complete and entries.known and len(seen) == len(entries.values)
                    if entries.certain and seen:
                        continue
                given = default
            if given is None:
                return None
            found.append(given)
        if not found and default is not None:
            found.append(default)
        return Sources(tuple(dict.fromkeys(found)), complete) if found else None

    def _is_traced(self, value: cst.BaseExpression) -> bool:
        """Whether anything is known of a value in a dictionary: where it is set, or which option it reads."""
        if not isinstance(value, (cst.Name, cst.Attribute)) or is_constant_name(value):
            return True
        is_option = isinstance(value, cst.Attribute) and self._values.parsers.is_declared(value.attr.value)
        return is_option or self.sources(value) is not None

    def calls_of(self, function: cst.FunctionDef) -> tuple[list[cst.Call], bool]:
        """The calls of ``function``, and whether there are no others."""
        callers = self._definitions.callers(function, self._values)
        calls = list(callers.calls)
        complete = callers.complete and is_run_as_called(function) and not self._does_anything
        if self._tree.function_of(function) is None and self._tree.root_of(function) in self._packaged:
            complete = False
        owner = self._tree.class_of(function)
        if owner is not None and function.name.value == "__init__":
            for derived in self._definitions.derived(owner):
                own = next((item for item in self._tree.scopes[derived].bindings.get("__init__", ())), None)
                if own is not None and isinstance(own.node, cst.FunctionDef):
                    complete = complete and any(
                        is_super_call(call, "__init__") for call in self._tree.calls_in(own.node.body)
                    )
        return list(dict.fromkeys(calls)), complete and bool(calls)

    # -- attributes

    def _of_attribute(self, node: cst.Attribute) -> Sources | None:
        members = self._names.members(node)
        if members:
            return self.of_bindings(members)
        if self._names.resolve(node) is not None:
            return None
        base = self._values.of(node.value)
        name = node.attr.value
        if isinstance(base.definition, cst.ClassDef) and base.kind is not Kind.FUNCTION:
            if not base.sure and not self._names.is_self(node.value):
                return None  # a caller passes an object of the class, and another one something unknown
            if self._owners(base, base.definition, name):
                return self.attribute_of(base, name)
        saved = self._saved(node)
        if saved is not None:
            return self._of_parameter(saved)
        stored = self._records.stored_values(node)
        text = dotted_name(node)
        if not stored and text is not None:
            stored = [item for item in self._values.stored(text) if item is None or not self._tree.within(node, item)]
        if not stored and not (base and base.sure):
            stored = [*self._records.alike(node)]
        known = [value for value in stored if value is not None]
        return Sources(tuple(known), False) if known and len(known) == len(stored) else None

    def _saved(self, node: cst.Attribute) -> cst.Param | None:
        """The parameter of a constructor that Lightning saves as ``self.hparams.workers``."""
        if not isinstance(node.value, cst.Attribute) or node.value.attr.value != "hparams":
            return None
        definition = self._values.of(node.value.value).definition
        constructor = self._definitions.method(definition, "__init__") if definition is not None else None
        params = parameters_of(constructor) if constructor is not None else ()
        return next((param for param in params if param.name.value == node.attr.value), None)

    def attribute_of(self, base: Value, name: str) -> Sources | None:
        """What an attribute of the object ``base`` may be set to; None if unknown, or if its class sets none."""
        if not isinstance(base.definition, cst.ClassDef) or base.kind is Kind.FUNCTION:
            return None
        owners = self._owners(base, base.definition, name)
        return self._of_class(base, base.definition, owners, name) if owners else None

    def _owners(self, base: Value, definition: cst.ClassDef, name: str) -> list[cst.ClassDef]:
        """The classes that set the attribute of an object: the nearest in its lineage, and all derived ones."""

        def binds(item: cst.ClassDef) -> bool:
            scope = self._tree.scopes[item]
            return name in scope.bindings or (base.kind is not Kind.CLASS and name in scope.attributes)

        lineage = self._definitions.lineage(definition)
        found = [item for item in lineage if binds(item)][:1]
        if base.kind is not Kind.CLASS:  # what an instance is set to hides what its class binds
            found += [item for item in lineage if item not in found and name in self._tree.scopes[item].attributes]
        if not base.is_of_one_class:
            found += [item for item in self._definitions.derived(definition) if binds(item)]
        return found

    def _of_class(self, base: Value, definition: cst.ClassDef, owners: list[cst.ClassDef], name: str) -> Sources | None:
        bindings = [binding for item in owners for binding in self._tree.scopes[item].bindings.get(name, ())]
        if base.kind is not Kind.CLASS:
            bindings += [binding for item in owners for binding in self._tree.scopes[item].attributes.get(name, ())]
        inherited = self.of_bindings(bindings)
        passed = self._passed_to_constructor(base, definition, name)
        stored = self._stored_in_objects(definition, name)
        if passed is None or stored is None:
            return None
        values, always = passed
        if not always:
            if inherited is None:
                return None
            defaults = [default_of_field(self._names, value) for value in inherited.values]
            values += [value for value in defaults if value is not None]
            if None in defaults:
                return None
        values += stored
        certain = base.is_of_one_class
        certain = certain and is_dataclass(self._names, definition)
        certain = certain and self._definitions.is_known_whole(definition)
        certain = (
            certain and not self._sets_any_attribute and (always or (inherited is not None and inherited.complete))
        )
        return Sources(tuple(dict.fromkeys(values)), certain) if values else None

    def _passed_to_constructor(
        self, base: Value, definition: cst.ClassDef, name: str
    ) -> tuple[list[cst.BaseExpression], bool] | None:
        """What the constructor of a class without ``__init__``, such as a dataclass, is given; None if unknown.

        And whether each of its calls gives something, so that a default does not count.
        """
        if base.kind is Kind.CLASS or self._definitions.method(definition, "__init__") is not None:
            return [], False
        order = field_names(self._tree, self._definitions, definition)
        found: list[cst.BaseExpression] = []
        calls = list(base.origins) or self._definitions.calls_of_class(definition)
        for call in calls:
            if not isinstance(call, cst.Call):
                return None
            positional = [argument.value for argument in call.args if argument.keyword is None]
            if any(argument.star for argument in call.args):
                return None
            found += [item.value for item in call.args if item.keyword is not None and item.keyword.value == name]
            if name in order and order.index(name) < len(positional):
                found.append(positional[order.index(name)])
        return found, bool(base.origins) and len(found) == len(calls)

    # -- what is stored from elsewhere

    def _stored_in_module(self, binding: Binding) -> list[cst.BaseExpression] | None:
        """What other files assign to a name of a module: ``config.WORKERS = 4``; None if unknown."""
        found: list[cst.BaseExpression] = []
        for target, value in self._records.stores.get(binding.name, ()):
            if any(member.node is binding.node for member in self._names.members(target) or ()):
                if value is None:
                    return None
                found.append(value)
        return found

    def _stored_in_objects(self, definition: cst.ClassDef, name: str) -> list[cst.BaseExpression] | None:
        """What is assigned to an attribute of objects that may be of a class, outside of its methods."""
        found: list[cst.BaseExpression] = []
        for target, value in self._records.stores.get(name, ()):
            other = self._values.of(target.value).definition
            if isinstance(other, cst.ClassDef):
                if definition not in self._definitions.lineage(other) and other not in self._definitions.lineage(
                    definition
                ):
                    continue
                if isinstance(target.value, cst.Name) and target.value.value == "self":
                    continue  # an attribute of the class itself
            if value is None:
                return None
            found.append(value)
        return found

    @cached_property
    def _does_anything(self) -> bool:
        return not _DO_ANYTHING.isdisjoint(self._names.calls)

    @cached_property
    def _sets_any_attribute(self) -> bool:
        """Whether attributes are set whose names are not in the text."""
        return "__dict__" in self._tree.attributes_by_name or any(
            not (len(call.args) == 3 and isinstance(call.args[1].value, cst.SimpleString))
            for call in self._names.calls_of("builtins.setattr")
        )
