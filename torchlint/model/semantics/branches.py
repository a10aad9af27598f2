"""Which returns of a function a call can reach: ``build_loader(args, train=True)`` returns what the branch returns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.reaching import Reaching
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import is_super_call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.nodes import TRIES
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree

#: Bindings of an attribute.
Bound = tuple[Binding, ...]
#: Of an attribute with more bindings, and of objects that are made at more places, all bindings count.
_MAX_BINDINGS, _MAX_MADE = 8, 4
#: Returned expressions; None for a bare ``return``.
Returned = tuple[cst.BaseExpression | None, ...]
#: A test, and whether it is true where a return is reached.
_Condition = tuple[cst.BaseExpression, bool]
_EQUAL = (cst.Equal, cst.Is)
_UNSURE = (cst.For, cst.While, *TRIES, cst.Match)
_CONSTANTS: dict[str, object] = {"True": True, "False": False, "None": None}
#: Comparisons of two numbers.
ORDERS: dict[type[cst.BaseCompOp], Callable[[float, float], bool]] = {
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}


@dataclass(frozen=True)
class _Literal:
    """The value of a literal."""

    value: object


@dataclass(frozen=True, eq=False)
class _Choice:
    """An assignment to a variable."""

    value: cst.BaseExpression
    tests: list[_Condition]
    is_sure: bool  #: whether it runs if the tests are true


class Branches:
    """Answers for one forest. Only literal arguments and defaults count, of parameters that are not bound again."""

    def __init__(self, tree: Tree, definitions: Definitions, reaching: Reaching, *, trusting: bool = False) -> None:
        """``trusting`` takes an argument for something other than None unless it, or what it names, is a literal."""
        self._trusting = trusting
        self._tree = tree
        self._definitions = definitions
        self._reaching = reaching
        self._choices: dict[cst.Name, list[_Choice]] = {}
        self._conditions: dict[cst.FunctionDef, dict[cst.BaseExpression | None, list[_Condition]]] = {}

    def only_adds(self, item: cst.ClassDef | cst.FunctionDef) -> bool:
        """Whether a method gives what that of its base gives: it returns ``super().to(device)``."""
        ends = self._definitions.returns(item) if isinstance(item, cst.FunctionDef) else []
        return bool(ends) and all(isinstance(end, cst.Call) and is_super_call(end, item.name.value) for end in ends)

    def reached(self, call: cst.Call, function: cst.FunctionDef) -> Returned | None:
        """The returned expressions of ``function`` that ``call`` can reach; None if it can reach all.

        Of a variable what it is set to on the paths that ``call`` can take, if there are others.
        """
        if any(item.star for item in call.args):
            return None
        conditions = self._conditions_of(function)
        returns = self._definitions.returns(function)
        reached = [item for item in returns if self._may_reach(conditions.get(item, ()), call, function)]
        found = tuple(value for item in reached for value in self._set_to(item, call, function))
        return None if not found or found == tuple(returns) else found

    def _set_to(
        self, node: cst.BaseExpression | None, call: cst.Call, function: cst.FunctionDef
    ) -> list[cst.BaseExpression | None]:
        """What the returned variable ``node`` is set to if ``call`` decides it, else ``node``."""
        choices = self._choices_of(node, function) if isinstance(node, cst.Name) else []
        found: list[cst.BaseExpression | None] = []
        for choice in choices:
            if self._may_reach(choice.tests, call, function):
                found.append(choice.value)
                if choice.is_sure and all(self._truth(test, call, function) is holds for test, holds in choice.tests):
                    break  # whatever the variable was set to before
        return found if 0 < len(found) < len(choices) else [node]

    def _choices_of(self, node: cst.Name, function: cst.FunctionDef) -> list[_Choice]:
        """What assignments in ``function`` set a variable to, the last one first; nothing if others may too."""
        if node not in self._choices:
            bindings = sorted(self._reaching.of(node), key=lambda item: item.order, reverse=True)
            found = [
                _Choice(item.value, list(self._around(item.node, function)), self._is_sure(item.node, function))
                for item in bindings[: _MAX_BINDINGS + 1]
                if item.kind is BindingKind.ASSIGN and item.value is not None and not item.path
                if self._tree.function_of(item.node) is function
            ]
            self._choices[node] = found if len(found) == len(bindings) and any(item.tests for item in found) else []
        return self._choices[node]

    def _is_sure(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether only the tests of ``if`` statements decide whether ``function`` runs ``node``."""
        return not any(isinstance(above, _UNSURE) for above, _ in climb(self._tree, node, function))

    def excludes(self, call: cst.Call, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
        """Whether ``node`` of ``function`` is under a condition that the arguments of ``call`` make false."""
        if any(item.star for item in call.args):
            return False
        return not self._may_reach(self._around(node, function), call, function)

    def includes(self, call: cst.Call, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
        """Whether ``node`` of ``function`` is under no condition but those that the arguments of ``call`` make true."""
        if any(item.star for item in call.args) or not self._is_sure(node, function):
            return False
        return all(self._truth(test, call, function) is holds for test, holds in self._around(node, function))

    def bound_by(self, made: Collection[cst.CSTNode], owner: cst.CSTNode, bindings: list[Binding]) -> Bound | None:
        """Those of the bindings of an attribute that may count for objects of ``owner``; None if all of them may.

        ``Loaders(args, "train")``, one of ``made``, runs what its constructor has under ``if mode == "train":``.
        """
        calls = [call for call in made if isinstance(call, cst.Call)]
        if not 1 < len(bindings) <= _MAX_BINDINGS or not 0 < len(calls) == len(made) <= _MAX_MADE:
            return None
        constructor = self._definitions.method(owner, "__init__")
        if constructor is None:
            return None
        found = tuple(
            item
            for item in bindings
            if self._tree.function_of(item.node) is not constructor
            or not all(self.excludes(call, constructor, item.node) for call in calls)
        )
        return None if len(found) == len(bindings) else found

    def _may_reach(self, conditions: Iterable[_Condition], call: cst.Call, function: cst.FunctionDef) -> bool:
        return all(self._truth(test, call, function) is not (not holds) for test, holds in conditions)

    def _conditions_of(self, function: cst.FunctionDef) -> dict[cst.BaseExpression | None, list[_Condition]]:
        """For each returned expression that is under conditions, these; nothing if all are returned anyway."""
        if function not in self._conditions:
            returns = [item for item in self._definitions.returns(function) if item is not None]
            found = {item: list(self._around(item, function)) for item in returns} if len(returns) > 1 else {}
            self._conditions[function] = {item: tests for item, tests in found.items() if tests}
        return self._conditions[function]

    def _around(self, node: cst.CSTNode, function: cst.FunctionDef) -> Iterator[_Condition]:
        for item in conditions(self._tree, node, function):
            if not isinstance(item.node, cst.If):
                continue
            if item.kind is ConditionKind.BRANCH:
                yield item.node.test, not item.is_else
            elif item.node.orelse is None and item.leaves_by(cst.Return, cst.Raise):
                yield item.node.test, False

    def _truth(self, test: cst.BaseExpression, call: cst.Call, function: cst.FunctionDef) -> bool | None:
        """Whether a test is true in the function when ``call`` calls it; None if that is not known."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            truth = self._truth(test.expression, call, function)
            return None if truth is None else not truth
        if isinstance(test, cst.BooleanOperation):
            sides = [self._truth(side, call, function) for side in (test.left, test.right)]
            decisive = isinstance(test.operator, cst.Or)
            return decisive if decisive in sides else None if None in sides else not decisive
        if isinstance(test, cst.Name):
            asked = self._asked(test, function)
            if asked is not None:
                return self._truth(asked, call, function)
            passed = _literal(self._passed(test, call, function))
            return None if passed is None else bool(passed.value)
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 and isinstance(test.left, cst.Name):
            return self._compares(test.left, test.comparisons[0], call, function)
        return None

    def _compares(
        self, name: cst.Name, compared: cst.ComparisonTarget, call: cst.Call, function: cst.FunctionDef
    ) -> bool | None:
        """Whether ``mode == "train"``, ``mode in ("train", "val")`` or ``eps > 0`` is true."""
        given = self._passed(name, call, function)
        passed, sign, other = _literal(given), compared.operator, compared.comparator
        if self._trusting and passed is None and is_none(other) and self._is_something(given):
            return isinstance(sign, (cst.IsNot, cst.NotEqual))
        if isinstance(sign, (cst.In, cst.NotIn)) and isinstance(other, (cst.Tuple, cst.List, cst.Set)):
            members = [_literal(element.value) for element in other.elements]
            return None if passed is None or None in members else (passed in members) is isinstance(sign, cst.In)
        right = _literal(other)
        if passed is None or right is None:
            return None
        if isinstance(sign, (*_EQUAL, cst.NotEqual, cst.IsNot)):
            return (passed == right) is isinstance(sign, _EQUAL)
        order = ORDERS.get(type(sign))
        if order is None or not isinstance(passed.value, (int, float)) or not isinstance(right.value, (int, float)):
            return None
        return order(passed.value, right.value)

    def _passed(self, name: cst.Name, call: cst.Call, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """What ``call`` passes for the parameter of that name, or else its default; None if nothing is known."""
        binding = self._only_binding(name, function)
        param = binding.node if binding is not None else None
        if not isinstance(param, cst.Param):
            return None
        return self._definitions.argument_of(call, function, param) or param.default

    def _is_something(self, given: cst.BaseExpression | None) -> bool:
        """Whether an argument is given, and not by a variable that may be None.

        So may a parameter by its default, and one of several results of a function.
        """
        bound = self._reaching.of(given) if isinstance(given, cst.Name) else []
        values = [item.node.default if isinstance(item.node, cst.Param) else item.value for item in bound]
        return given is not None and not any(item.path for item in bound) and not any(map(is_none, values))

    def _asked(self, name: cst.Name, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """The test that a name is set to: of ``training = model is not None``."""
        binding = self._only_binding(name, function)
        value = binding.value if binding is not None and binding.kind is BindingKind.ASSIGN else None
        return value if isinstance(value, (cst.Comparison, cst.UnaryOperation, cst.BooleanOperation)) else None

    def _only_binding(self, name: cst.Name, function: cst.FunctionDef) -> Binding | None:
        """What binds a name in ``function``, if nothing else may have at that place."""
        bindings: Sequence[Binding] = self._tree.scopes[function].bindings.get(name.value, ())
        if len(bindings) > 1:
            bindings = self._reaching.of(name)
        return bindings[0] if len(bindings) == 1 and self._tree.within(bindings[0].node, function) else None


def _literal(node: cst.BaseExpression | None) -> _Literal | None:
    """The value of a string, of a number, of True, False or None; None for anything else."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        number = _literal(node.expression)
        return _Literal(-number.value) if number is not None and isinstance(number.value, (int, float)) else None
    if isinstance(node, (cst.SimpleString, cst.Integer, cst.Float)):
        return _Literal(node.evaluated_value)
    return _Literal(_CONSTANTS[node.value]) if isinstance(node, cst.Name) and node.value in _CONSTANTS else None
