"""Names in the conditions of a step that vary in it, although what they decide about runs at every step."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.literals import is_zero
from torchlint.model.training.intervals import Intervals

#: Names of the weight of a part of the loss, which is 0 until that part begins.
_WEIGHTS = re.compile(r"(^|_)(weight|factor|coef|coeff|lambda)$|^(lambda|weight)_", re.IGNORECASE)
#: Methods that ask for a part of a text.
_OF_TEXT = frozenset({"startswith", "endswith"})
#: Comparisons with a text, or with several.
_COMPARING = (cst.Equal, cst.NotEqual, cst.In, cst.NotIn)


class AskedNames(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest)
        self._intervals = forest.fact(Intervals)

    def is_weight(self, name: cst.Name) -> bool:
        """Whether a condition asks for a weight that a function gives, such as 0 until a start: ``factor > 0``."""
        test = self._forest.tree.parent(name)
        if not isinstance(test, cst.Comparison) or test.left is not name or not _WEIGHTS.search(name.value):
            return False
        bound = test.comparisons[0]
        if not isinstance(bound.operator, (cst.GreaterThan, cst.NotEqual)) or not is_zero(bound.comparator):
            return False
        given = self._forest.values.reaching.assigned(name)
        called = self._forest.definitions.called(given, self._forest.values) if isinstance(given, cst.Call) else ()
        return bool(called) and not any(
            self._intervals.counts(part)
            for item in called
            for part in self._forest.tree.inside(item, cst.BinaryOperation)
        )

    def is_key(self, name: cst.Name, step: cst.CSTNode) -> bool:
        """Whether a condition compares the variable of a loop in ``step`` with a text: ``if key == "loss":``."""
        reached = self._forest.values.reaching.of(name) if self._is_compared_with_text(name) else ()
        return bool(reached) and all(
            item.kind is BindingKind.FOR and item.node is not step and self._forest.tree.within(item.node, step)
            for item in reached
        )

    def _is_compared_with_text(self, name: cst.Name) -> bool:
        """``key == "loss"``, ``key in ["a", "b"]``, ``"loss" in key``, ``key.startswith("loss")``."""
        above = self._forest.tree.parent(name)
        if isinstance(above, cst.Attribute):
            return above.attr.value in _OF_TEXT
        if isinstance(above, cst.Comparison):
            return isinstance(above.comparisons[0].operator, _COMPARING) and _is_text(above.comparisons[0].comparator)
        if not isinstance(above, cst.ComparisonTarget) or not isinstance(above.operator, _COMPARING):
            return False
        test = self._forest.tree.parent(above)
        return isinstance(test, cst.Comparison) and isinstance(test.left, cst.SimpleString)


def _is_text(node: cst.BaseExpression) -> bool:
    """Whether an expression is a text, or lists texts."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return bool(node.elements) and all(isinstance(item.value, cst.SimpleString) for item in node.elements)
    return isinstance(node, cst.SimpleString)
