"""Functions that a program applies to each item of something: ``map(move, batch)``, ``tree_map(move, batch)``.

And lambdas with a name, ``move = lambda tensor: tensor.cuda()``, or that one function of the program calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.reaching import Reaching
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree

#: Names of functions that apply a function to each tensor in nested lists and dicts.
_MAPS_NESTED = re.compile(
    r"(tree|nested|structure|recursive(ly)?)_?map|map_(tree|nest|structure|tensor)|apply_(to_(collection|tensor|nested)|recursive)",
)


class Mappings:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._found: dict[cst.CSTNode, list[cst.Arg]] | None = None

    def items_for(self, function: cst.FunctionDef | cst.Lambda, param: cst.Param) -> list[cst.BaseExpression]:
        """What a function takes the items of, one by one, as ``param``: ``map(lambda t: t.cuda(), (text, images))``.

        Functions with such a name that map nested items are taken for what they are called: ``tree_map``.
        """
        params = function.params.params
        place = next((index for index, item in enumerate(params) if item is param), None)
        found: list[cst.BaseExpression] = []
        for argument in self._mapped.get(function, ()) if place is not None else ():
            call = self._tree.parent(argument)
            if not isinstance(call, cst.Call) or place is None:
                continue
            if self._is_map(call):
                found += [item.value for item in call.args[place + 1 : place + 2]]
            elif place == 0:
                items = (item.value for item in call.args if item.keyword is None and item is not argument)
                found += [*items][:1]
        return found

    def arguments_for(self, function: cst.Lambda, param: cst.Param) -> list[cst.BaseExpression]:
        """What the calls of a lambda that has a name, or is passed to a function, pass for ``param``."""
        place = next((index for index, item in enumerate(function.params.params) if item is param), None)
        variable = self._variable(function)
        uses = self._names.uses_in(*variable) if variable is not None else self._uses_as_parameter(function)
        calls = [call for use in uses if isinstance(call := self._tree.parent(use), cst.Call) and call.func is use]
        found: list[cst.BaseExpression] = []
        for call in calls:
            positional, by_keyword = self._definitions.arguments.passed(call)
            if place is not None and place < len(positional):
                found.append(positional[place])
            elif param.name.value in by_keyword:
                found.append(by_keyword[param.name.value])
        return found

    def _uses_as_parameter(self, function: cst.Lambda) -> Iterator[cst.Name]:
        """The uses of a parameter that gets ``function`` and no other: ``apply(batch, lambda part: part.cuda())``."""
        argument = self._tree.parent(function)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) and not argument.star else None
        if not isinstance(call, cst.Call):
            return
        called = (item for item in self._definitions.called(call, self._values) if isinstance(item, cst.FunctionDef))
        for definition in called:
            for param in parameters_of(definition):
                if self._definitions.argument_of(call, definition, param) is not function:
                    continue
                given = self._definitions.arguments_for(definition, param, self._values)
                if all(item is function or self._is_parameter(item, param) for item in given):
                    yield from self._names.uses_in(self._tree.scopes[definition], param.name.value)

    def _is_parameter(self, node: cst.BaseExpression, param: cst.Param) -> bool:
        """Whether ``node`` is the parameter ``param``, which a function passes on to itself."""
        bindings = self._names.bindings(node) if isinstance(node, cst.Name) else []
        return len(bindings) == 1 and bindings[0].node is param

    def _variable(self, function: cst.Lambda) -> tuple[Scope, str] | None:
        """The variable that a lambda is assigned to."""
        statement = self._tree.parent(function)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0].target
        return self._names.variable(target) if isinstance(target, cst.Name) else None

    @property
    def _mapped(self) -> dict[cst.CSTNode, list[cst.Arg]]:
        """By function or lambda the arguments by which calls get it, in order to apply it to items."""
        if self._found is not None:
            return self._found
        nothing: dict[cst.CSTNode, list[cst.Arg]] = {}
        found, is_final = self._values.guard(Mappings, self._find, nothing)
        if is_final:
            self._found = found
        return found

    def _find(self) -> dict[cst.CSTNode, list[cst.Arg]]:
        found: dict[cst.CSTNode, list[cst.Arg]] = {}
        for call in self._tree.calls_where(lambda name: name == "map" or _MAPS_NESTED.search(name)):
            if any(item.star for item in call.args) or not (
                self._is_map(call) or _MAPS_NESTED.search(called_name(call))
            ):
                continue
            for argument in call.args[:1] if self._is_map(call) else call.args:
                for function in self._functions(argument.value):
                    found.setdefault(function, []).append(argument)
        return found

    def _is_map(self, call: cst.Call) -> bool:
        return self._names.resolve(call.func) == "builtins.map"

    def _functions(self, node: cst.BaseExpression) -> list[cst.CSTNode]:
        """The functions and lambdas that ``node`` refers to."""
        if isinstance(node, cst.Lambda):
            return [node]
        if isinstance(node, cst.Attribute):
            return [*self._definitions.reachable(node, self._values)]
        if not isinstance(node, cst.Name):
            return []
        bound = [binding.value for binding in self._names.bindings(node) if binding.kind is BindingKind.ASSIGN]
        return [*self._definitions.named(node), *(value for value in bound if isinstance(value, cst.Lambda))]


def body_of(func: cst.BaseExpression, reaching: Reaching) -> cst.BaseExpression | None:
    """What a call of ``func`` gives where that is a lambda with a name: ``make = lambda data: DataLoader(data)``."""
    bound = reaching.only(func) if type(func) is cst.Name else None
    return bound.value.body if bound is not None and not bound.path and type(bound.value) is cst.Lambda else None
