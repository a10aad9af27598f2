"""Lists of numbers that need no data of the host: one number repeated, or computed from the numbers of a range."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.tensors.numbers import Numbers

#: Functions that give a number of numbers.
_COMPUTING = re.compile(r"math\.\w+|builtins\.(abs|float|int|max|min|pow|round)|numpy\.(cos|exp|log|power|sin|sqrt)")
#: Names of attributes that are numbers, if nothing else is known of them.
_COUNTS = re.compile(r"num_\w+")


class GeneratedLists(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._numbers = forest.fact(Numbers)

    def range_of(self, node: cst.BaseExpression) -> cst.Call | None:
        """The range that a comprehension computes numbers of: ``[2 * i for i in range(n) if i != 3]``."""
        if not isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return None
        parts = (node.elt, *(item.test for item in node.for_in.ifs))
        return self._counted(node.for_in) if all(map(self._is_formula, parts)) else None

    def joined(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What a comprehension gives for each number of a range: ``[torch.full((2,), i) for i in range(n)]``."""
        if not isinstance(node, (cst.ListComp, cst.GeneratorExp)) or node.for_in.ifs:
            return None
        return node.elt if self._counted(node.for_in) is not None else None

    def _counted(self, loop: cst.CompFor) -> cst.Call | None:
        """The range that a comprehension with one loop iterates over."""
        over = loop.iter if loop.inner_for_in is None else None
        return over if isinstance(over, cst.Call) and self._forest.name_of(over.func) == "builtins.range" else None

    def is_repeated(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number that is repeated, or several such lists: ``[[1]] * n + [[0]] * n``.

        Lists of written numbers may be among them: ``[0.0] + [-1e9] * (n - 1)``.
        """
        if not isinstance(node, cst.BinaryOperation):
            return False
        if isinstance(node.operator, cst.Add):
            sides = (node.left, node.right)
            repeated = [self.is_repeated(side) for side in sides]
            return any(repeated) and all(repeated[at] or self._is_of_numbers(side) for at, side in enumerate(sides))
        if not isinstance(node.operator, cst.Multiply):
            return False
        return any(
            (self._is_of_one(one) or self._is_product(one))
            and self._forest.value(count).kind in (Kind.UNKNOWN, Kind.NUMBER, Kind.OTHER)
            for one, count in ((node.left, node.right), (node.right, node.left))
        )

    def _is_of_numbers(self, node: cst.BaseExpression) -> bool:
        """``[0.0]``, ``[1, 0]``."""
        return isinstance(node, cst.List) and all(
            isinstance(item, cst.Element) and self._is_scalar(item.value) for item in node.elements
        )

    def _is_product(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number that is repeated, and repeated once more: of ``[1] * rows * columns``."""
        is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)
        return is_product and self.is_repeated(node)

    def _is_of_one(self, node: cst.BaseExpression) -> bool:
        """``[0]``, ``[[0.5]]``, ``[step]``, ``[diffusion.num_steps]``."""
        if not isinstance(node, cst.List) or len(node.elements) != 1:
            return False
        only = node.elements[0]
        return isinstance(only, cst.Element) and (self._is_of_one(only.value) or self._is_scalar(only.value))

    def _is_scalar(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number, and not what a loop over anything else than numbers gives."""
        if isinstance(node, cst.Name) and not self._forest.value(node):
            reached = self._forest.values.reaching.of(node)
            if any(item.kind is BindingKind.FOR for item in reached):
                return False
        if isinstance(node, cst.Attribute) and not self._forest.value(node) and _COUNTS.fullmatch(node.attr.value):
            return True
        return self._numbers.is_number(node) or self._numbers.is_setting(node)

    def _is_formula(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` computes from numbers and settings alone, without items of lists."""
        if isinstance(node, cst.UnaryOperation):
            return self._is_formula(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self._is_formula(node.left) and self._is_formula(node.right)
        if isinstance(node, cst.Comparison):
            return self._is_formula(node.left) and all(self._is_formula(item.comparator) for item in node.comparisons)
        if isinstance(node, cst.Call):
            name = self._forest.name_of(node.func) or ""
            return _COMPUTING.fullmatch(name) is not None and all(self._is_formula(item.value) for item in node.args)
        if isinstance(node, cst.Subscript):
            return False
        return self._numbers.is_number(node) or self._numbers.is_setting(node)
