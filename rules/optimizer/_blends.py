"""What blends a parameter with its average: ``e = d * e + (1 - d) * p``, in one statement or a few."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import bare, called_name

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


class Blends:
    """The statements that run for one parameter: an iteration of a loop, or a function that it calls."""

    def __init__(self, module: Module, bound: frozenset[str]) -> None:
        self._module = module
        self._tree = module.tree
        self._bound = bound  # the names of the parameter and its average
        self._aliases: dict[str, str] = {}  # ``old`` for ``shadow[name]``
        self._scaled: set[str] = set()  # what ``mul_`` has multiplied
        self._sums: dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]] = {}
        self._differences: dict[str, cst.BinaryOperation] = {}
        self._weights: dict[str, cst.BaseExpression] = {}  # of differences that are multiplied in place

    def first(self, body: cst.CSTNode) -> Blend | None:
        """The first blend in ``body``."""
        for statement in self._tree.nodes_in(body):
            if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
                found = self._by_call(statement, statement.value)
            elif isinstance(statement, cst.Assign) and len(statement.targets) == 1:
                found = self._by_assignment(statement)
            elif isinstance(statement, cst.AugAssign):
                found = self._by_augmented(statement)
            else:
                continue
            if found is not None:
                return found
        return None

    def returned(self, function: cst.FunctionDef) -> Blend | None:
        """What a function of two parameters returns: ``return old * d + (1 - d) * new``."""
        returned = self._module.definitions.returns(function)
        return next(filter(None, (self.computed(value) for value in returned if value is not None)), None)

    def computed(self, value: cst.BaseExpression) -> Blend | None:
        """The blend that ``value`` is."""
        terms = self._terms(value)
        if terms is None or not self._is_pair(terms[0][1], terms[1][1]):
            return None
        return Blend(value, terms[0][1], terms[1][1], None)

    def is_item(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is what an iteration is about: ``p``, ``p.data``, ``shadow[name]``."""
        item = bare(node, _SAME, with_arguments=True)
        if not isinstance(item, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        return any(isinstance(part, cst.Name) and part.value in self._bound for part in self._tree.nodes_in(item))

    def _by_call(self, statement: cst.Expr, call: cst.Call) -> Blend | None:
        """``e.mul_(d).add_(p, alpha=1 - d)``, ``e.lerp_(p, 1 - d)``, ``e.copy_(d * e + (1 - d) * p)``."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not call.args:
            return None
        name = self._module.name_of(func)
        if name is not None:
            return self._by_out(statement, call) if name == "torch.add" else None
        method, owner = func.attr.value, func.value
        if method == "mul_" and isinstance(owner, cst.Name) and owner.value in self._differences:
            self._weights[owner.value] = call.args[0].value
            return None
        if method == "mul_" and self.is_item(owner):
            self._scaled.add(self._key(owner))
            return None
        first = call.args[0].value
        if method == "lerp_" and len(call.args) == 2 and self._is_pair(owner, first):
            return Blend(statement, owner, first, call.args[1].value)
        if method == "copy_" and self.is_item(owner):
            return self._of_value(statement, owner, first)
        if method in ("sub_", "add_"):
            found = self._of_difference(statement, owner, first)
            if found is not None:
                return found
        if method != "add_":
            return None
        chained = isinstance(owner, cst.Call) and isinstance(owner.func, cst.Attribute)
        if chained and owner.func.attr.value == "mul_" and owner.args:  # type: ignore[attr-defined]
            average, factor = owner.func.value, owner.args[0].value  # type: ignore[attr-defined]
            return self._of_sum(statement, average, factor, call)
        if self.is_item(owner) and self._key(owner) in self._scaled:
            return self._of_sum(statement, owner, None, call)
        return None

    def _of_sum(
        self,
        statement: cst.CSTNode,
        average: cst.BaseExpression,
        factor: cst.BaseExpression | None,
        call: cst.Call,
    ) -> Blend | None:
        """What ``add_`` adds to an average that was multiplied by ``factor``; also ``add_(1 - d, p)``."""
        given = [item.value for item in call.args if item.keyword is None]
        alpha = next((item.value for item in call.args if item.keyword and item.keyword.value == "alpha"), None)
        if len(given) == 2:
            alpha = given.pop(0)  # the deprecated order
        added = given[0] if given else call.args[0].value
        weighted = (alpha, added) if alpha is not None else self._weighted(added)
        if weighted is None or not self._is_pair(average, weighted[1]):
            return None
        factors = (*((factor,) if factor is not None else ()), weighted[0])
        texts = [self._module.code(item) for item in factors]
        if factor is not None and not _add_up(texts):
            return None
        return Blend(statement, average, weighted[1], None if factor is None else weighted[0])

    def _by_out(self, statement: cst.Expr, call: cst.Call) -> Blend | None:
        """``torch.add(e, p, alpha=1 - d, out=e)`` behind ``e.mul_(d)``."""
        average = call.args[0].value
        if len(call.args) < 3 or self._key(average) not in self._scaled:
            return None
        added = call.args[1].value
        return Blend(statement, average, added, None) if self._is_pair(average, added) else None

    def _by_assignment(
        self,
        statement: cst.Assign,
    ) -> Blend | None:
        target, value = statement.targets[0].target, statement.value
        if isinstance(target, cst.Name):
            terms = self._terms(value)
            if terms is not None:
                self._sums[target.value] = terms
            elif isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Subtract):
                self._differences[target.value] = value
            elif self.is_item(value):
                self._aliases[target.value] = self._key(value)
            return None
        if not isinstance(target, (cst.Attribute, cst.Subscript)) or not self.is_item(target):
            return None
        made = bare(value, _SAME, with_arguments=True)
        if isinstance(made, cst.Name) and made.value in self._sums:
            return self._of_terms(statement, target, self._sums[made.value])
        return self._of_value(statement, target, value)

    def _by_augmented(self, statement: cst.AugAssign) -> Blend | None:
        """``e *= d`` and then ``e += (1 - d) * p``; ``e -= (1 - d) * (e - p)``."""
        target = statement.target
        is_scaled = isinstance(statement.operator, cst.MultiplyAssign)
        if is_scaled and isinstance(target, cst.Name) and target.value in self._differences:
            self._weights[target.value] = statement.value
        if not self.is_item(target):
            return None
        if isinstance(statement.operator, cst.MultiplyAssign):
            self._scaled.add(self._key(target))
            return None
        found = self._of_difference(statement, target, statement.value)
        if (
            found is not None
            or not isinstance(statement.operator, cst.AddAssign)
            or self._key(target) not in self._scaled
        ):
            return found
        weighted = self._weighted(statement.value)
        if weighted is None or not self._is_pair(target, weighted[1]):
            return None
        return Blend(statement, target, weighted[1], None)

    def _of_value(self, statement: cst.CSTNode, average: cst.BaseExpression, value: cst.BaseExpression) -> Blend | None:
        """``d * e + (1 - d) * p``, ``torch.lerp(e, p, 1 - d)``, ``p.lerp(e, d)``."""
        terms = self._terms(value)
        if terms is not None:
            return self._of_terms(statement, average, terms)
        if not isinstance(value, cst.Call) or called_name(value) != "lerp":
            return None
        given = [item.value for item in value.args]
        if isinstance(value.func, cst.Attribute) and self._module.name_of(value.func) is None:
            given.insert(0, value.func.value)
        if len(given) != 3:
            return None
        if self._key(given[0]) == self._key(average) and self._is_pair(average, given[1]):
            return Blend(statement, average, given[1], given[2])
        if self._key(given[1]) == self._key(average) and self._is_pair(average, given[0]):
            return Blend(statement, average, given[0], None)
        return None

    def _terms(self, value: cst.BaseExpression) -> list[tuple[cst.BaseExpression, cst.BaseExpression]] | None:
        """The two weights and tensors of a sum whose weights add up to 1."""
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
            return None
        found = [item for side in (value.left, value.right) if (item := self._weighted(side)) is not None]
        if len(found) != 2 or not _add_up([self._module.code(weight) for weight, _ in found]):
            return None
        return found

    def _of_terms(
        self,
        statement: cst.CSTNode,
        average: cst.BaseExpression,
        terms: list[tuple[cst.BaseExpression, cst.BaseExpression]],
    ) -> Blend | None:
        others = [term for term in terms if self._key(term[1]) != self._key(average)]
        if len(others) != 1 or not self._is_pair(average, others[0][1]):
            return None
        return Blend(statement, average, others[0][1], others[0][0])

    def _of_difference(
        self, statement: cst.CSTNode, average: cst.BaseExpression, value: cst.BaseExpression
    ) -> Blend | None:
        """``e.sub_((1 - d) * (e - p))``, ``e += (1 - d) * (p - e)``, also of a difference that has a name."""
        for weight, factor in self._products(value):
            inner = self._differences.get(factor.value, factor) if isinstance(factor, cst.Name) else factor
            if not isinstance(inner, cst.BinaryOperation) or not isinstance(inner.operator, cst.Subtract):
                continue
            sides = [inner.left, inner.right]
            others = [side for side in sides if self._key(side) != self._key(average)]
            if len(others) == 1 and self._is_pair(average, others[0]):
                return Blend(statement, average, others[0], weight)
        return None

    def _products(self, node: cst.BaseExpression) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """The two factors of a product, in both orders: also of ``d``, behind ``d = e - p`` and ``d *= w``."""
        if isinstance(node, cst.Name) and node.value in self._weights:
            return [(self._weights[node.value], node)]
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return []
        return [(node.left, node.right), (node.right, node.left)]

    def _weighted(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        """The weight and the tensor of a product."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return None
        for weight, tensor in ((node.left, node.right), (node.right, node.left)):
            if self.is_item(tensor) and not self.is_item(weight):
                return weight, tensor
        return None

    def _is_pair(self, average: cst.BaseExpression, new: cst.BaseExpression) -> bool:
        """Whether these are the average of a parameter and the parameter."""
        both = self.is_item(average) and self.is_item(new)
        return both and self._key(average) != self._key(new)

    def _key(self, node: cst.BaseExpression) -> str:
        text = self._module.code(bare(node, _SAME, with_arguments=True))
        return self._aliases.get(text, text)


def _add_up(weights: Sequence[str]) -> bool:
    """Whether two weights add up to 1: ``d`` and ``1 - d``, ``0.999`` and ``0.001``."""
    if any(map(_COMPLEMENT.search, weights)):
        return True
    try:
        return len(weights) == 2 and math.isclose(sum(map(float, weights)), 1)
    except ValueError:
        return False
