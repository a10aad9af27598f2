"""Loops that update a moving average of parameters, one parameter at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._average_words import NAMES, PARAMETERS

#: One of two weights that add up to 1.
_COMPLEMENT = re.compile(r"\b1(\.0*)?\s*-|minus", re.IGNORECASE)
#: Methods and attributes that give the same values in another form.
_SAME = frozenset({"detach", "to", "type_as", "cuda", "cpu", "clone", "float"})


@dataclass(frozen=True, eq=False)
class Blend:
    """``average = (1 - weight) * average + weight * new``, of one parameter."""

    statement: cst.CSTNode
    average: cst.BaseExpression
    new: cst.BaseExpression
    weight: cst.BaseExpression | None  #: None where it is spread over several statements


@dataclass(frozen=True, eq=False)
class AverageLoop:
    """A loop over parameters that blends each with its average."""

    loop: cst.For
    blend: Blend
    step: StepPlace | None  #: the training step that runs it; None if no call of its function is seen


class Averages:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._aliases: dict[str, str] = {}  # in one loop: ``old`` for ``shadow[name]``

    def all(self) -> Iterator[AverageLoop]:
        """The loops of the file that update an average at every training step, in order."""
        for loop in self._tree.loops:
            if not isinstance(loop, cst.For) or not self._module.is_own(loop) or not self._is_over_parameters(loop):
                continue
            blend = self._blend(loop)
            if blend is None or self._has_other_purpose(loop):
                continue
            places = self._module.fact(StepPlaces)
            step = places.of(loop, places.usually, trained=True)
            if step is not None or self._is_called_elsewhere(loop):
                yield AverageLoop(loop, blend, step)

    # -- the loop

    def _is_over_parameters(self, loop: cst.For) -> bool:
        if PARAMETERS.search(self._module.code(loop.iter)):
            return True
        names = [node for node in self._tree.nodes_in(loop.iter) if isinstance(node, cst.Name)]
        values = [item.value for name in names for item in self._module.values.reaching.of(name)]
        return any(value is not None and PARAMETERS.search(self._module.code(value)) for value in values)

    def _has_other_purpose(self, loop: cst.For) -> bool:
        """Whether the loop is part of an optimizer, or what runs where the batched functions are missing."""
        if "param_groups" in self._module.code(loop.iter) or ".grad" in self._module.code(loop):
            return True
        owner = nearest(self._tree, loop, cst.ClassDef)
        if isinstance(owner, cst.ClassDef):
            if any(name.endswith("Optimizer") for name in self._module.definitions.base_names(owner)):
                return True
        function = self._module.function_of(loop)
        calls = () if function is None else self._tree.calls_in(function.body)
        return any(called_name(call).startswith("_foreach_") for call in calls)

    def _is_called_elsewhere(self, loop: cst.For) -> bool:
        """Whether no call of the function around ``loop`` is seen, and its name says what it is there for."""
        function = self._module.function_of(loop)
        if function is None or self._module.fact(Dispatch).callers(function):
            return False
        owner = self._tree.class_of(function)
        names = (function.name.value, owner.name.value if owner is not None else "")
        return any(map(NAMES.search, names)) and not self._module.fact(Iterations).is_counted(loop, function)

    # -- the blend

    def _blend(self, loop: cst.For) -> Blend | None:
        bound = self._bound_in(loop)
        self._aliases = {}
        scaled: set[str] = set()
        sums: dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]] = {}
        for statement in self._tree.nodes_in(loop.body):
            if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
                found = self._by_call(statement, statement.value, bound, scaled)
            elif isinstance(statement, cst.Assign) and len(statement.targets) == 1:
                found = self._by_assignment(statement, bound, sums)
            elif isinstance(statement, cst.AugAssign):
                found = self._by_augmented(statement, bound, scaled)
            else:
                continue
            if found is not None:
                return found
        return None

    def _bound_in(self, loop: cst.For) -> frozenset[str]:
        """The names that each iteration binds."""
        targets = [node.target for node in self._tree.nodes_in(loop.body) if isinstance(node, cst.AssignTarget)]
        parts = [loop.target, *(target for target in targets if isinstance(target, (cst.Name, cst.Tuple)))]
        return frozenset(
            node.value for part in parts for node in self._tree.nodes_in(part) if isinstance(node, cst.Name)
        )

    def _by_call(self, statement: cst.Expr, call: cst.Call, bound: frozenset[str], scaled: set[str]) -> Blend | None:
        """``e.mul_(d).add_(p, alpha=1 - d)``, ``e.lerp_(p, 1 - d)``, ``e.copy_(d * e + (1 - d) * p)``."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not call.args:
            return None
        name = self._module.name_of(func)
        if name is not None:
            return self._by_out(statement, call, bound, scaled) if name == "torch.add" else None
        method, owner = func.attr.value, func.value
        if method == "mul_" and self._is_item(owner, bound):
            scaled.add(self._key(owner))
            return None
        first = call.args[0].value
        if method == "lerp_" and len(call.args) == 2 and self._is_pair(owner, first, bound):
            return Blend(statement, owner, first, call.args[1].value)
        if method == "copy_" and self._is_item(owner, bound):
            return self._of_value(statement, owner, first, bound)
        if method in ("sub_", "add_"):
            found = self._of_difference(statement, owner, first, bound)
            if found is not None:
                return found
        if method != "add_":
            return None
        chained = isinstance(owner, cst.Call) and isinstance(owner.func, cst.Attribute)
        if chained and owner.func.attr.value == "mul_" and owner.args:  # type: ignore[attr-defined]
            average, factor = owner.func.value, owner.args[0].value  # type: ignore[attr-defined]
            return self._of_sum(statement, average, factor, call, bound)
        if self._is_item(owner, bound) and self._key(owner) in scaled:
            return self._of_sum(statement, owner, None, call, bound)
        return None

    def _of_sum(
        self,
        statement: cst.CSTNode,
        average: cst.BaseExpression,
        factor: cst.BaseExpression | None,
        call: cst.Call,
        bound: frozenset[str],
    ) -> Blend | None:
        """What ``add_`` adds to an average that was multiplied by ``factor``; also ``add_(1 - d, p)``."""
        given = [item.value for item in call.args if item.keyword is None]
        alpha = next((item.value for item in call.args if item.keyword and item.keyword.value == "alpha"), None)
        if len(given) == 2:
            alpha = given.pop(0)  # the deprecated order
        added = given[0] if given else call.args[0].value
        weighted = (alpha, added) if alpha is not None else self._weighted(added, bound)
        if weighted is None or not self._is_pair(average, weighted[1], bound):
            return None
        factors = (*((factor,) if factor is not None else ()), weighted[0])
        if factor is not None and not any(_COMPLEMENT.search(self._module.code(item)) for item in factors):
            return None
        return Blend(statement, average, weighted[1], None if factor is None else weighted[0])

    def _by_out(self, statement: cst.Expr, call: cst.Call, bound: frozenset[str], scaled: set[str]) -> Blend | None:
        """``torch.add(e, p, alpha=1 - d, out=e)`` behind ``e.mul_(d)``."""
        average = call.args[0].value
        if len(call.args) < 3 or self._key(average) not in scaled:
            return None
        added = call.args[1].value
        return Blend(statement, average, added, None) if self._is_pair(average, added, bound) else None

    def _by_assignment(
        self,
        statement: cst.Assign,
        bound: frozenset[str],
        sums: dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]],
    ) -> Blend | None:
        target, value = statement.targets[0].target, statement.value
        if isinstance(target, cst.Name):
            terms = self._terms(value, bound)
            if terms is not None:
                sums[target.value] = terms
            elif self._is_item(value, bound):
                self._aliases[target.value] = self._key(value)
            return None
        if not isinstance(target, (cst.Attribute, cst.Subscript)) or not self._is_item(target, bound):
            return None
        made = self._bare(value)
        if isinstance(made, cst.Name) and made.value in sums:
            return self._of_terms(statement, target, sums[made.value], bound)
        return self._of_value(statement, target, value, bound)

    def _by_augmented(self, statement: cst.AugAssign, bound: frozenset[str], scaled: set[str]) -> Blend | None:
        """``e *= d`` and then ``e += (1 - d) * p``; ``e -= (1 - d) * (e - p)``."""
        target = statement.target
        if not self._is_item(target, bound):
            return None
        if isinstance(statement.operator, cst.MultiplyAssign):
            scaled.add(self._key(target))
            return None
        found = self._of_difference(statement, target, statement.value, bound)
        if found is not None or not isinstance(statement.operator, cst.AddAssign) or self._key(target) not in scaled:
            return found
        weighted = self._weighted(statement.value, bound)
        if weighted is None or not self._is_pair(target, weighted[1], bound):
            return None
        return Blend(statement, target, weighted[1], None)

    def _of_value(
        self, statement: cst.CSTNode, average: cst.BaseExpression, value: cst.BaseExpression, bound: frozenset[str]
    ) -> Blend | None:
        """``d * e + (1 - d) * p``, ``torch.lerp(e, p, 1 - d)``, ``p.lerp(e, d)``."""
        terms = self._terms(value, bound)
        if terms is not None:
            return self._of_terms(statement, average, terms, bound)
        if not isinstance(value, cst.Call) or called_name(value) != "lerp":
            return None
        given = [item.value for item in value.args]
        if isinstance(value.func, cst.Attribute) and self._module.name_of(value.func) is None:
            given.insert(0, value.func.value)
        if len(given) != 3:
            return None
        if self._key(given[0]) == self._key(average) and self._is_pair(average, given[1], bound):
            return Blend(statement, average, given[1], given[2])
        if self._key(given[1]) == self._key(average) and self._is_pair(average, given[0], bound):
            return Blend(statement, average, given[0], None)
        return None

    def _terms(
        self, value: cst.BaseExpression, bound: frozenset[str]
    ) -> list[tuple[cst.BaseExpression, cst.BaseExpression]] | None:
        """The two weights and tensors of a sum whose weights add up to 1."""
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
            return None
        found = [item for side in (value.left, value.right) if (item := self._weighted(side, bound)) is not None]
        if len(found) != 2 or not any(_COMPLEMENT.search(self._module.code(weight)) for weight, _ in found):
            return None
        return found

    def _of_terms(
        self,
        statement: cst.CSTNode,
        average: cst.BaseExpression,
        terms: list[tuple[cst.BaseExpression, cst.BaseExpression]],
        bound: frozenset[str],
    ) -> Blend | None:
        others = [term for term in terms if self._key(term[1]) != self._key(average)]
        if len(others) != 1 or not self._is_pair(average, others[0][1], bound):
            return None
        return Blend(statement, average, others[0][1], others[0][0])

    def _of_difference(
        self, statement: cst.CSTNode, average: cst.BaseExpression, value: cst.BaseExpression, bound: frozenset[str]
    ) -> Blend | None:
        """``e.sub_((1 - d) * (e - p))``, ``e += (1 - d) * (p - e)``."""
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Multiply):
            return None
        for weight, inner in ((value.left, value.right), (value.right, value.left)):
            if not isinstance(inner, cst.BinaryOperation) or not isinstance(inner.operator, cst.Subtract):
                continue
            sides = [inner.left, inner.right]
            others = [side for side in sides if self._key(side) != self._key(average)]
            if len(others) == 1 and self._is_pair(average, others[0], bound):
                return Blend(statement, average, others[0], weight)
        return None

    def _weighted(
        self, node: cst.BaseExpression, bound: frozenset[str]
    ) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        """The weight and the tensor of a product."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return None
        for weight, tensor in ((node.left, node.right), (node.right, node.left)):
            if self._is_item(tensor, bound) and not self._is_item(weight, bound):
                return weight, tensor
        return None

    def _is_pair(self, average: cst.BaseExpression, new: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """Whether these are the average of a parameter and the parameter."""
        both = self._is_item(average, bound) and self._is_item(new, bound)
        return both and self._key(average) != self._key(new)

    def _is_item(self, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """Whether ``node`` is what an iteration is about: ``p``, ``p.data``, ``shadow[name]``."""
        bare = self._bare(node)
        if not isinstance(bare, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        return any(isinstance(part, cst.Name) and part.value in bound for part in self._tree.nodes_in(bare))

    def _bare(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``node`` without the ``.data``, ``.detach()`` and ``.to(device)`` at its end."""
        while True:
            if isinstance(node, cst.Attribute) and node.attr.value == "data":
                node = node.value
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SAME:
                node = node.func.value
            else:
                return node

    def _key(self, node: cst.BaseExpression) -> str:
        text = self._module.code(self._bare(node))
        return self._aliases.get(text, text)
