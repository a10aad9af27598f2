"""What calls give to parameters, one value a call, and which of these a test of the type leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.value import UNKNOWN, Role, Value, iterated, join, unpacked
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.tree import Tree

_CONTAINERS = (Kind.BATCH, Kind.SEQUENCE)
#: What a value may be of which ``isinstance`` says that it is of a class.
_KINDS = {
    "builtins.dict": _CONTAINERS,
    "builtins.list": _CONTAINERS,
    "builtins.tuple": _CONTAINERS,
    "collections.OrderedDict": _CONTAINERS,
    "collections.abc.Mapping": _CONTAINERS,
    "collections.abc.Sequence": _CONTAINERS,
    "torch.Tensor": (Kind.TENSOR, Kind.BATCH),
    "torch.nn.Module": (Kind.MODULE, Kind.LOSS),
}
#: Names of functions that apply a function to each tensor in nested lists and dicts.
_MAPS_NESTED = re.compile(
    r"(tree|nested|structure|recursive(ly)?)_?map|map_(tree|nest|structure|tensor)|apply_(to_(collection|tensor|nested)|recursive)",
)


class ParameterValues:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
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
            elif any(item.star == "*" for item in call.args):
                found += self._unpacked(call, function, param)
            else:
                entries = self._definitions.arguments.unpacked(call, param)
                found += [self._values.of(value) for value in entries.values] if entries is not None else []
        return found

    def _calls_of_objects(self, method: cst.FunctionDef) -> list[cst.Call]:
        """The calls ``move(batch)`` of objects of a class that run ``method``, its ``__call__``."""
        if method.name.value != "__call__" or self._tree.class_of(method) is None:
            return []
        if self._object_calls is not None:
            return self._object_calls.get(method, [])
        found, is_final = self._values.attempt(self._find_calls_of_objects)
        if is_final:
            self._object_calls = found
        return found.get(method, [])

    def _find_calls_of_objects(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """By ``__call__`` of a class the calls of objects that have a name."""
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in self._calls_of_variables:
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

    def _unpacked(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> Iterator[Value]:
        """What ``step(*batch)`` gives to a parameter, if the star is the first argument that may."""
        place = self._definitions.place_of(function, param)
        star = next(index for index, item in enumerate(call.args) if item.star == "*")
        if place is None or place < star or any(item.star == "*" for item in call.args[star + 1 :]):
            return
        value = self._values.of(call.args[star].value)
        if value.kind is Kind.BATCH or value.role is Role.BATCH or value.elements:
            yield unpacked(value, (place - star,))

    def extra(self, function: cst.FunctionDef) -> Value:
        """What the callers of a function give to its parameter ``*args``."""
        found = [self._values.of(item) for item in self._definitions.extra_arguments(function, self._values)]
        for call in self._definitions.callers(function, self._values).calls:
            starred = [item.value for item in call.args if item.star == "*"]
            found += [iterated(self._values.of(item)) for item in starred]
        return Value(Kind.SEQUENCE, each=join(found)) if found else UNKNOWN

    def narrowed(self, name: cst.Name, param: cst.Param, found: Value) -> Value:
        """``found``, the value of a parameter, without what it is not under ``if isinstance(batch, dict):``."""
        kinds = self.kinds_at(name)
        if kinds is None or found.kind in kinds:
            return found
        function = owner_of(self._tree, param)
        given = self.alternatives(function, param) if function is not None else []
        return join([value for value in given if value.kind in kinds])

    @cached_property
    def _tested_names(self) -> frozenset[str]:
        """The names whose type is asked for anywhere."""
        return frozenset(
            call.args[0].value.value
            for call in self._tree.calls_named("isinstance", "is_tensor")
            if call.args and isinstance(call.args[0].value, cst.Name)
        )

    def kinds_at(self, name: cst.Name) -> tuple[Kind, ...] | None:
        """What ``name`` may be, as the nearest test of its type around it says; None without one."""
        if name.value not in self._tested_names:
            return None
        for above, child in climb(self._tree, name):
            if type(above) is cst.FunctionDef or type(above) is cst.Lambda:
                return None
            if type(above) is cst.If and child is above.body:
                kinds = self._tested(above.test, name.value)
                if kinds is not None:
                    return kinds
        return None

    def _tested(self, test: cst.BaseExpression, name: str) -> tuple[Kind, ...] | None:
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return self._tested(test.left, name) or self._tested(test.right, name)
        if not isinstance(test, cst.Call) or not test.args:
            return None
        first = test.args[0].value
        if not isinstance(first, cst.Name) or first.value != name:
            return None
        called = self._names.resolve(test.func)
        if called == "torch.is_tensor":
            return _KINDS["torch.Tensor"]
        if called != "builtins.isinstance" or len(test.args) != 2:
            return None
        kinds: list[Kind] = []
        for node in _alternatives(test.args[1].value):
            known = _KINDS.get(self._names.resolve(node) or "")
            if known is None:
                return None
            kinds += known
        return tuple(kinds)


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The classes that ``isinstance`` is given."""
    return [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]


def mapped(tree: Tree, names: Names, param: cst.Param) -> cst.BaseExpression | None:
    """What a lambda takes the items of, one by one, as ``param``: ``map(lambda t: t.cuda(), (text, images))``.

    Functions with such a name that map nested items are taken for what they are called: ``tree_map``.
    """
    params = tree.parent(param)
    function = tree.parent(params) if params is not None else None
    argument = tree.parent(function) if isinstance(function, cst.Lambda) else None
    call = tree.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(function, cst.Lambda):
        return None
    if any(item.star for item in call.args):
        return None
    if _MAPS_NESTED.search(called_name(call)) and len(function.params.params) == 1:
        return next((item.value for item in call.args if item.keyword is None and item is not argument), None)
    if call.args[0] is not argument or names.resolve(call.func) != "builtins.map":
        return None
    place = next((i for i, item in enumerate(function.params.params, 1) if item is param), len(call.args))
    return call.args[place].value if place < len(call.args) else None
