"""How large an integer may be, such as the width of a layer: the largest one that the program gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self
from torchlint.model.syntax.scopes import Binding

#: How many calls may give a parameter.
_CALLS = 16


class Widths(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._known: CyclicMemo[cst.BaseExpression, int | None] = CyclicMemo(None)
        self._items: CyclicMemo[cst.BaseExpression, int | None] = CyclicMemo(None)

    def largest(self, node: cst.BaseExpression | None) -> int | None:
        """The largest integer that ``node`` may be; None if not all are known, or one is negative."""
        return None if node is None else self._known.get(node, self._find)

    def _find(self, node: cst.BaseExpression) -> int | None:
        constant = self._forest.value(node).constant
        if isinstance(constant, int):
            return constant if constant >= 0 else None
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Multiply)):
            left, right = self.largest(node.left), self.largest(node.right)
            if left is None or right is None:
                return None
            return left + right if isinstance(node.operator, cst.Add) else left * right
        if isinstance(node, cst.Subscript):
            return self._largest_item(node.value)
        if isinstance(node, cst.Attribute) and is_attribute_of_self(node):
            return self._largest_of(self._forest.values.stored(dotted_name(node) or ""))
        if isinstance(node, cst.Attribute):  # ``args.width``
            return self._largest_of(self._forest.values.parsers.defaults(node.attr.value, node))
        if isinstance(node, cst.Name):
            return _most([self._bound(item) for item in self._forest.values.reaching.of(node)])
        return None

    def _largest_of(self, nodes: Iterable[cst.BaseExpression | None]) -> int | None:
        return _most([self.largest(node) for node in nodes])

    def _bound(self, binding: Binding) -> int | None:
        """The largest integer that a binding may give its name."""
        if binding.kind is BindingKind.FOR and not binding.path:
            return self._largest_item(binding.value)
        return self._largest_of(self._sources(binding))

    def _largest_item(self, node: cst.BaseExpression | None) -> int | None:
        """The largest integer in a list or tuple."""
        return None if node is None else self._items.get(node, self._find_item)

    def _find_item(self, node: cst.BaseExpression) -> int | None:
        if isinstance(node, (cst.List, cst.Tuple)):
            return self._largest_of([item.value for item in node.elements])
        if isinstance(node, cst.Attribute) and is_attribute_of_self(node):
            sources: Sequence[cst.BaseExpression | None] = self._forest.values.stored(dotted_name(node) or "")
        elif isinstance(node, cst.Name):
            sources = [item for bound in self._forest.values.reaching.of(node) for item in self._sources(bound)]
        else:
            return None
        return _most([self._largest_item(item) for item in sources])

    def _sources(self, binding: Binding) -> list[cst.BaseExpression | None]:
        """The expressions that a binding may give its name: what all calls pass for a parameter, or its default."""
        if binding.kind is BindingKind.ASSIGN and not binding.path:
            return [binding.value]
        if binding.kind is not BindingKind.PARAM or not isinstance(binding.node, cst.Param):
            return [None]
        given = self._forest.passed_by_all(binding.node, at_most=_CALLS)
        return [binding.node.default if item is None else item for item in given] or [binding.node.default]


def _most(found: list[int | None]) -> int | None:
    """The largest of several integers; None without any, or if one is not known."""
    known = [item for item in found if item is not None]
    return max(known) if known and len(known) == len(found) else None
