"""Functions that train or only evaluate, as a parameter or a loop variable says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import owner_of, parameters_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.training.function_words import EVALUATING, TRAINING, words_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import is_step

#: Names of data or of a phase that is not for training.
HELD_OUT = re.compile(r"val|test|eval|dev|infer|predict", re.IGNORECASE)
#: Words of a parameter without whose value nothing is trained.
_TRAINING = TRAINING | {"optim", "optimiser", "optimizer", "backward", "backprop"}
#: A value of a phase that is not a constant.
_UNKNOWN = object()
#: How many functions a constant is followed through that only pass it on, each called at so many places at most.
_DEPTH, _MAX_CALLS = 3, 8
#: The name of a parameter or loop variable with the constants that it takes, by which calls, and where they are chosen.
_Variable: TypeAlias = tuple[str, list[tuple[object, list[cst.CSTNode], list[cst.CSTNode]]]]


@dataclass(frozen=True, eq=False)
class Member:
    """A member of an enumeration, as a constant: ``Mode.TEST``."""

    definition: cst.ClassDef
    name: str

    def __repr__(self) -> str:
        return f"{self.definition.name.value}.{self.name}"

    def __hash__(self) -> int:
        return hash((id(self.definition), self.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and other.definition is self.definition and other.name == self.name


@dataclass(frozen=True, eq=False)
class Phase:
    """One value of a parameter or loop variable under which a function does not train."""

    name: str  #: what the parameter or variable is called
    value: object  #: the constant
    places: tuple[cst.CSTNode, ...]  #: the calls that choose it, or the loop over the phases
    calls: tuple[cst.CSTNode, ...]  #: the calls of the function that pass it, maybe for those that choose it

    @property
    def evidence(self) -> tuple[str, cst.CSTNode]:
        """What shows that the function does not train, and where."""
        return f"nothing is trained when `{self.name}` is `{self.value!r}`", self.places[0]


def says_evaluation(phase: Phase) -> bool:
    """Whether a phase is called so: ``train=False``, ``"val"``, ``Mode.TEST``, no optimizer."""
    if isinstance(phase.value, (str, Member)):
        name = phase.value if isinstance(phase.value, str) else phase.value.name
        return HELD_OUT.search(name) is not None
    words = words_of(phase.name)
    return bool(words & (EVALUATING if phase.value else _TRAINING))


class Phases(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        #: By function the calls in it that train, and its variables.
        self._known: dict[cst.FunctionDef, tuple[list[cst.Call], list[_Variable]]] = {}

    def evaluating(self, forward: cst.Call, function: cst.FunctionDef) -> Iterator[Phase]:
        """The phases in which ``forward`` runs and nothing in ``function``, which also trains, does."""
        if function not in self._known:
            training = [call for call in self._tree.calls_in(function.body) if self._trains(call)]
            self._known[function] = training, list(self._variables(function)) if training else []
        training, variables = self._known[function]
        for name, values in variables:
            for value, calls, places in values:
                if value is _UNKNOWN or not self._may_run(forward, function, name, value):
                    continue
                if not any(self._may_run(call, function, name, value) for call in training):
                    yield Phase(name, value, tuple(places), tuple(calls))

    def _trains(self, call: cst.Call) -> bool:
        gradients = self._forest.fact(Gradients)
        return (
            gradients.is_backward(call)
            or is_step(call)
            or any(
                isinstance(item, cst.FunctionDef) and gradients.trains(item)
                for item in self._forest.definitions.called(call, self._forest.values)
            )
        )

    def _variables(self, function: cst.FunctionDef) -> Iterator[_Variable]:
        """The parameters and loop variables of ``function`` with the constants that they take, and where."""
        bindings = self._tree.scopes[function].bindings
        for param in parameters_of(function):
            others = self._others(bindings[param.name.value])
            found: dict[object, tuple[list[cst.CSTNode], list[cst.CSTNode]]] = {}
            for value, call, place in self._passed(function, param, _DEPTH):
                calls, places = found.setdefault(value, ([], []))
                calls.append(call)
                places.append(place)
            if len(found) > 1:
                yield param.name.value, [(value, *made) for value, made in found.items() if others <= {value}]
        for name, bound in bindings.items():
            loop = bound[0].node if len(bound) == 1 else None
            if isinstance(loop, cst.For):
                values = self._constants_of(loop.iter, bound[0].path)
                if len(values) > 1:
                    yield name, [(value, [loop], [loop]) for value in values]

    def _passed(
        self, function: cst.FunctionDef, param: cst.Param, depth: int
    ) -> Iterator[tuple[object, cst.CSTNode, cst.CSTNode]]:
        """The constants that calls pass for a parameter, each with the call, and with the call that chooses it.

        That is another one if the function around the call only passes its own parameter on.
        """
        calls = self._forest.callers(function).calls
        for call in calls:
            if any(item.star for item in call.args):
                continue
            given = self._forest.definitions.argument_of(call, function, param) or param.default
            outer = self._forest.names.parameter(given) if depth > 0 and len(calls) <= _MAX_CALLS else None
            owner = owner_of(self._tree, outer) if outer is not None else None
            if outer is None or owner is None:
                yield from ((value, call, call) for value in self._constants(given))
                continue
            yield _UNKNOWN, call, call  # calls out of sight may pass more
            if self._forest.fact(GradModes).within(call, owner) is None:
                for value, _, place in self._passed(owner, outer, depth - 1):
                    if self._may_run(call, owner, outer.name.value, value):
                        yield value, call, place

    def _others(self, bindings: list[Binding]) -> set[object]:
        """The constants that a function itself gives to a parameter: ``train = False`` for what cannot be trained."""
        made = [item for item in bindings if item.kind is not BindingKind.PARAM]
        return {
            self._constant(item.value if item.kind is BindingKind.ASSIGN and not item.path else None) for item in made
        }

    def _constants(self, node: cst.BaseExpression | None) -> list[object]:
        """The constants that an expression may be: itself one, or the variable of a loop over some."""
        if isinstance(node, cst.Name):
            bindings = self._forest.names.bindings(node)
            loops = [item.node for item in bindings if item.kind is BindingKind.FOR]
            if len(bindings) == 1 and loops and bindings[0].value is not None:
                return self._constants_of(bindings[0].value, bindings[0].path) or [_UNKNOWN]
        return [self._constant(node)]

    def _constants_of(self, node: cst.BaseExpression, path: tuple[int, ...] = ()) -> list[object]:
        """The elements of ``["train", "val"]``, or a part of each: ``[("train", loader), ("val", other)]``."""
        if not isinstance(node, (cst.List, cst.Tuple)):
            return []
        values = [self._constant(unpacked(element.value, path)) for element in node.elements]
        return values if _UNKNOWN not in values else []

    def _constant(self, node: cst.BaseExpression | None) -> object:
        """``True``, ``0``, ``"val"``, ``None``; an unknown value for anything else."""
        if isinstance(node, cst.Name) and node.value in ("True", "False"):
            return node.value == "True"
        value = self._forest.value(node)
        if value.kind is Kind.STRING and isinstance(value.constant, str):
            return value.constant
        if isinstance(node, cst.Attribute):
            return self._member(node) or _UNKNOWN
        if isinstance(node, cst.Integer):
            return node.evaluated_value
        return None if is_none(node) else _UNKNOWN

    def _member(self, node: cst.Attribute) -> Member | None:
        """The member of an enumeration of the program that ``Mode.TEST`` names."""
        owner = self._forest.value(node.value)
        definition = owner.definition if owner.kind is Kind.CLASS else None
        if not isinstance(definition, cst.ClassDef):
            return None
        bindings = self._tree.scopes[definition].bindings.get(node.attr.value, [])
        if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN:
            return None
        is_enumeration = any(name.startswith("enum.") for name in self._forest.definitions.base_names(definition))
        return Member(definition, node.attr.value) if is_enumeration else None

    # -- what runs in a phase

    def _may_run(self, node: cst.CSTNode, function: cst.FunctionDef, name: str, value: object) -> bool:
        """Whether ``node`` in ``function`` may be reached where ``name`` is ``value``."""
        for item in conditions(self._tree, node, function):
            holds = self._holds(item.test, function, name, value) if item.test is not None else None
            if item.kind is ConditionKind.BRANCH and holds is item.is_else:  # not where unknown
                return False
            if item.kind is ConditionKind.EXIT and holds and item.leaves_by(cst.Return, cst.Continue, cst.Raise):
                return False
        return True

    def _holds(self, test: cst.BaseExpression, function: cst.FunctionDef, name: str, value: object) -> bool | None:
        """What a condition is where ``name`` is ``value``; None if that does not decide it."""
        if isinstance(test, cst.Name):
            if test.value == name:
                return bool(value)
            bindings = self._tree.scopes[function].bindings.get(test.value, [])
            if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN and not bindings[0].path:
                made = bindings[0].value
                if isinstance(made, (cst.Comparison, cst.UnaryOperation, cst.BooleanOperation)):
                    return self._holds(made, function, name, value)
            return None
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self._holds(test.expression, function, name, value)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            sides = [self._holds(side, function, name, value) for side in (test.left, test.right)]
            decisive = isinstance(test.operator, cst.Or)
            if decisive in sides:
                return decisive
            return None if None in sides else not decisive
        if isinstance(test, cst.Comparison):
            return self._compares(test, name, value)
        return None

    def _compares(self, test: cst.Comparison, name: str, value: object) -> bool | None:
        """``phase == "train"``, ``optimizer is not None``, ``mode in ("train", "fit")``."""
        if len(test.comparisons) != 1 or not isinstance(test.left, cst.Name) or test.left.value != name:
            return None
        operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
        if isinstance(operator, (cst.In, cst.NotIn)):
            among = self._constants_of(other)
            return (value in among) is isinstance(operator, cst.In) if among else None
        constant = self._constant(other)
        if constant is _UNKNOWN or not isinstance(operator, (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot)):
            return None
        return (value == constant) is isinstance(operator, (cst.Equal, cst.Is))
