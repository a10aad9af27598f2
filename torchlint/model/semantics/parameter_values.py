"""What calls give to parameters, one value a call, and which of these a test of the type leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.mappings import Mappings
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.type_tests import TypeTests
from torchlint.model.semantics.value import UNKNOWN, Role, Value, iterated, join, unpacked
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.parameters import owner_of, parameters_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree


class ParameterValues:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._mappings = Mappings(tree, names, definitions, values)
        self._type_tests = TypeTests(tree, names)
        self._object_calls: dict[cst.CSTNode, list[cst.Call]] | None = None

    def alternatives(self, function: cst.FunctionDef, param: cst.Param) -> list[Value]:
        """What each call that is seen gives to a parameter."""
        found: list[Value] = []
        calls = self._definitions.callers(function, self._values).calls
        partials = self._definitions.partials.of(function, self._values)
        for call in (*calls, *self._calls_of_objects(function), *partials):
            given = self._definitions.argument_of(call, function, param)
            if given is not None:
                found.append(self._values.of(given))
                continue
            if any(item.star == "*" for item in call.args):
                found += self._unpacked(call, function, param)
            entries = self._definitions.arguments.unpacked(call, param)
            found += [self._values.of(value) for value in entries.values] if entries is not None else []
        return found + [iterated(self._values.of(items)) for items in self._mappings.items_for(function, param)]

    def of_lambda(self, param: cst.Param) -> list[Value]:
        """What a parameter of a lambda gets: items that it is applied to, or arguments of calls by its name."""
        function = self._lambda_of(param)
        if function is None:
            return []
        items = [iterated(self._values.of(item)) for item in self._mappings.items_for(function, param)]
        return items + [self._values.of(given) for given in self._mappings.arguments_for(function, param)]

    def passed_for(self, param: cst.Param) -> list[cst.BaseExpression]:
        """The expressions that a parameter gets, whole or item by item, as far as they are seen."""
        function = owner_of(self._tree, param)
        if function is not None:
            given = self._definitions.arguments_for(function, param, self._values)
            return given + _items(self._mappings.items_for(function, param))
        home = self._lambda_of(param)
        if home is None:
            return []
        return self._mappings.arguments_for(home, param) + _items(self._mappings.items_for(home, param))

    def _lambda_of(self, param: cst.Param) -> cst.Lambda | None:
        params = self._tree.parent(param)
        function = self._tree.parent(params) if params is not None else None
        return function if isinstance(function, cst.Lambda) else None

    def _calls_of_objects(self, method: cst.FunctionDef) -> list[cst.Call]:
        """The calls ``move(batch)`` of objects of a class that run ``method``, its ``__call__``."""
        if method.name.value != "__call__" or self._tree.class_of(method) is None:
            return []
        if self._object_calls is not None:
            return self._object_calls.get(method, [])
        nothing: dict[cst.CSTNode, list[cst.Call]] = {}
        found, is_final = self._values.guard(ParameterValues, self._find_calls_of_objects, nothing)
        if is_final:
            self._object_calls = found
        return found.get(method, [])

    def _find_calls_of_objects(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """By ``__call__`` of a class the calls of objects that have a name."""
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in (*self._calls_of_variables, *self._calls_of_attributes):
            value = self._values.of(call.func)
            definition = value.definition if value.kind is Kind.OTHER else None
            method = self._definitions.method(definition, "__call__") if definition is not None else None
            if method is not None:
                found.setdefault(method, []).append(call)
        return found

    @cached_property
    def _calls_of_variables(self) -> list[cst.Call]:
        """The calls of names that are bound otherwise than by ``def``, ``class`` and ``import``."""
        names, named = self._names, self._definitions.named
        return [
            call
            for call in self._tree.calls
            if isinstance(call.func, cst.Name) and names.resolve(call.func) is None and not named(call.func)
        ]

    @cached_property
    def _calls_of_attributes(self) -> list[cst.Call]:
        """The calls of attributes with the names of those that objects with ``__call__`` are assigned to.

        So is ``self.evaluate(model, loader)`` after ``self.evaluate = Evaluator()``.
        """
        with_call = (item for item in self._tree.classes if self._definitions.method(item, "__call__") is not None)
        above = (self._tree.parent(call) for item in with_call for call in self._definitions.calls_of_class(item))
        targets = (target.target for item in above if isinstance(item, cst.Assign) for target in item.targets)
        named = {target.attr.value for target in targets if isinstance(target, cst.Attribute)}
        return [call for call in self._tree.calls_named(*sorted(named)) if isinstance(call.func, cst.Attribute)]

    def _unpacked(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> Iterator[Value]:
        """What ``step(*batch)`` gives to a parameter, if the star is the first argument that may.

        The last parameters get what is passed after it: ``step(*batch, device)``, ``step(*batch, device=device)``.
        """
        named = [item for item in call.args if item.keyword is not None and item.keyword.value == param.name.value]
        if named:
            yield self._values.of(named[0].value)
            return
        place = self._definitions.place_of(function, param)
        if place is not None and (prepared := self._definitions.arguments.preparation(call)) is not None:
            place -= len(self._definitions.arguments.passed(prepared)[0])
        star = next(index for index, item in enumerate(call.args) if item.star == "*")
        if place is None or place < star or any(item.star == "*" for item in call.args[star + 1 :]):
            return
        behind = [item.value for item in call.args[star + 1 :] if item.keyword is None and not item.star]
        if behind:
            params = function.params.params
            left = len(params) - next((index for index, item in enumerate(params) if item is param), 0)
            if any(item.default is not None for item in params) or any(item.keyword is not None for item in call.args):
                return
            if left <= len(behind):
                yield self._values.of(behind[-left])
                return
        value = self._values.of(call.args[star].value)
        if value.kind is Kind.BATCH or value.role is Role.BATCH:
            yield unpacked(value, (place - star,))
        rows = value.shapes or ((value.elements,) if value.elements else ())
        yield from (row[place - star] for row in rows if place - star < len(row))

    def extra(self, function: cst.FunctionDef, param: cst.Param) -> Value:
        """What the callers of a function give to its parameter ``*args``, or to ``**kwargs`` if that is a batch."""
        if param is not function.params.star_arg:
            return self._extra_keywords(function)
        rows: list[Value] = []
        for call in self._definitions.callers(function, self._values).calls:
            starred = [item.value for item in call.args if item.star == "*"]
            given = tuple(map(self._values.of, self._definitions.arguments.extra(call, function)))
            found = [*given, *(iterated(self._values.of(item)) for item in starred)]
            if found:
                rows.append(Value(Kind.SEQUENCE, elements=() if starred else given, each=join(found)))
        return join(rows) if rows else UNKNOWN

    def _extra_keywords(self, function: cst.FunctionDef) -> Value:
        given = [(item.star, self._values.of(item.value)) for item in self.extra_keywords(function)]
        parts = [iterated(value) if star and value.kind is Kind.BATCH else value for star, value in given]
        if not parts or not all(part.kind is Kind.TENSOR and part.role is Role.BATCH for part in parts):
            return UNKNOWN
        return replace(join(parts), kind=Kind.BATCH, elements=())

    def extra_keywords(self, function: cst.FunctionDef) -> list[cst.Arg]:
        """What the calls of a function pass by keyword for ``**kwargs``, or unpack."""
        named = {param.name.value for param in parameters_of(function)}
        return [
            item
            for call in self._definitions.callers(function, self._values).calls
            for item in call.args
            if item.star == "**" or (item.keyword is not None and item.keyword.value not in named)
        ]

    def narrowed(self, name: cst.Name, binding: Binding, found: Value) -> Value:
        """``found``, the value that ``binding`` gives, without what it is not under ``if isinstance(batch, dict):``.

        Of the values of a parameter that have nothing in common, also without those that are not left by the tests that
        failed. Of those that functions return, if they have nothing in common, those that a test leaves.
        """
        if binding.kind is BindingKind.ASSIGN:
            return found if found or found.shapes else self._narrowed_result(name, binding) or found
        if binding.kind is not BindingKind.PARAM or not isinstance(binding.node, cst.Param):
            return found
        kinds = self.kinds_at(name)
        excluded = self._type_tests.excluded_at(name) if kinds is None and not (found or found.shapes) else frozenset()
        if not excluded and (kinds is None or found.kind in kinds):
            return found
        function = owner_of(self._tree, binding.node)
        given = self.alternatives(function, binding.node) if function is not None else []
        return join([value for value in given if value.kind not in excluded and (kinds is None or value.kind in kinds)])

    def _narrowed_result(self, name: cst.Name, binding: Binding) -> Value:
        """What a test of the type of ``name`` leaves of what the functions return whose result it is bound to."""
        if not isinstance(binding.value, cst.Call) or binding.path:
            return UNKNOWN
        kinds = self._type_tests.kinds_at(name, binding.order)
        called = self._definitions.called(binding.value, self._values) if kinds is not None else ()
        functions = [item for item in called if isinstance(item, cst.FunctionDef)]
        if kinds is None or any(map(self._definitions.yields, functions)):
            return UNKNOWN
        returned = (self._values.of(node) for item in functions for node in self._definitions.returns(item))
        return join([value for value in returned if value.kind in kinds])

    def kinds_at(self, name: cst.Name) -> tuple[Kind, ...] | None:
        """What ``name`` may be, as the nearest test of its type around it says; None without one."""
        return self._type_tests.kinds_at(name)


def _items(displays: list[cst.BaseExpression]) -> list[cst.BaseExpression]:
    """The elements of tuples and lists that are written out; other expressions as they are."""
    return [
        item
        for node in displays
        for item in ([part.value for part in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node])
    ]
