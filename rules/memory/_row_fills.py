"""Rows that a loop fills with a number, each up to a length of its own: ``mask[i, :length] = 1``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import called_name, dotted_name

from ._row_values import RowValues
from ._row_words import FILLING

_INFINITE = frozenset({"numpy.inf", "math.inf", "torch.inf"})


class RowFills:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._values = module.fact(RowValues)

    def targets(self, loop: cst.For, bound: frozenset[str]) -> list[cst.BaseExpression]:
        """The tensors whose rows the body of a loop fills, if it does nothing else; ``bound`` are the loop variables.

        A condition may be around the fills that only asks whether there is something to fill: ``if length < size:``.
        """
        *before, last = loop.body.body
        guard = last if isinstance(last, cst.If) and last.orelse is None else None
        rows = [*before, *(guard.body.body if guard is not None else (last,))]
        found: list[cst.BaseExpression] = []
        for item in (part for row in rows for part in _parts(row)):
            name = self._named_by(item, bound) if not found else None
            if name is not None:
                bound |= {name}
                continue
            target = self._filled_by(item, bound)
            base = self._base_of(target, bound) if target is not None else None
            if target is None or base is None or not self.is_filled_by_length(target, bound):
                return []
            if guard is not None and not (self._tree.within(item, guard) and self._asks_for_rest(guard.test, target)):
                return []
            if any(dotted_name(node) == dotted_name(target.value) for node in self._indices(target)):
                return []
            found.append(base)
        return found

    def _base_of(self, target: cst.Subscript, bound: frozenset[str]) -> cst.BaseExpression | None:
        """``mask`` of ``mask[i, :length]``; what a loop takes a row from that is written under a name, ``row[:n]``."""
        if is_row(target, bound):
            return target.value
        row = target.value if isinstance(target.value, cst.Name) and target.value.value in bound else None
        return self._values.taken_from(row) if row is not None else None

    def _named_by(self, statement: cst.CSTNode, bound: frozenset[str]) -> str | None:
        """``length`` of ``length = lengths[i]``, computed from the variables of the loop."""
        target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
        if not isinstance(statement, cst.Assign) or not isinstance(target, cst.Name) or target.value in bound:
            return None
        parts = [*self._tree.nodes_in(statement.value)]
        if any(isinstance(part, cst.Call) and not self.is_read(part) for part in parts):
            return None
        names = self._tree.names_in(statement.value)
        return target.value if not names.isdisjoint(bound) and target.value not in names else None

    def _filled_by(self, statement: cst.CSTNode, bound: frozenset[str]) -> cst.Subscript | None:
        """``mask[i, :length]`` of an assignment of a number to it, and of ``mask[i, :length].fill_(1)``."""
        target: cst.BaseExpression | None = None
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and self._is_one(statement.value, bound):
            target = statement.targets[0].target
        elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
            func, given = statement.value.func, statement.value.args
            if isinstance(func, cst.Attribute) and func.attr.value in FILLING:
                target = func.value if all(self.is_number(item.value) for item in given) else None
        return target if isinstance(target, cst.Subscript) else None

    def _asks_for_rest(self, test: cst.BaseExpression, target: cst.Subscript) -> bool:
        """Whether a condition is true if a slice is not empty: ``length < size`` of ``mask[i, length:]``."""
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        slices = [item.slice for item in target.slice if isinstance(item.slice, cst.Slice)]
        name, bound = dotted_name(test.left), test.comparisons[0]
        calls = (part for part in self._tree.nodes_in(bound.comparator) if isinstance(part, cst.Call))
        if any(called_name(call) not in ("len", "size") for call in calls):
            return False
        if isinstance(bound.operator, cst.LessThan):
            return any(item.lower is not None and dotted_name(item.lower) == name for item in slices)
        is_positive = isinstance(bound.operator, cst.GreaterThan) and self._module.code(bound.comparator) == "0"
        return is_positive and any(item.upper is not None and dotted_name(item.upper) == name for item in slices)

    def _indices(self, target: cst.Subscript) -> list[cst.CSTNode]:
        nodes = [node for item in target.slice for node in self._tree.nodes_in(item)]
        return [node for node in nodes if isinstance(node, (cst.Name, cst.Attribute))]

    def is_filled_by_length(self, target: cst.Subscript, bound: frozenset[str]) -> bool:
        """``mask[i, :length] = 1``: all but the first index are slices, one of them with a bound of the loop."""
        parts = [item.slice for item in target.slice]
        first = next((part for part in parts if isinstance(part, cst.Index)), None)
        varying = False
        for part in parts:
            if part is first:
                continue
            if not isinstance(part, cst.Slice) or part.step is not None:
                return False
            for bound_of in (part.lower, part.upper):
                if bound_of is None:
                    continue
                if any(isinstance(node, cst.Call) and not self.is_read(node) for node in self._tree.nodes_in(bound_of)):
                    return False
                names = self._tree.names_in(bound_of)
                varying = varying or not names.isdisjoint(bound)
        return varying

    def is_read(self, call: cst.Call) -> bool:
        """``length.item()``, ``int(length)``."""
        if isinstance(call.func, cst.Attribute):
            return call.func.attr.value == "item"
        return self._module.name_of(call.func) == "builtins.int"

    def _is_one(self, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """Whether a number is the same for all rows, also under a name: ``self.end_token``."""
        name = dotted_name(node)
        return self.is_number(node) or (name is not None and name.partition(".")[0] not in bound)

    def is_number(self, node: cst.BaseExpression) -> bool:
        """``1``, ``-1e9``, ``True``, ``-np.inf``, ``float("-inf")``."""
        if isinstance(node, cst.UnaryOperation):
            return self.is_number(node.expression)
        if isinstance(node, cst.Call):
            return self._module.name_of(node.func) == "builtins.float" and isinstance(
                node.args[0].value, cst.SimpleString
            )
        return (
            isinstance(node, (cst.Integer, cst.Float))
            or (isinstance(node, cst.Name) and node.value in ("True", "False"))
            or self._module.name_of(node) in _INFINITE
        )


def _parts(row: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The statements of a line, or the compound statement."""
    return row.body if isinstance(row, cst.SimpleStatementLine) else (row,)


def is_row(target: cst.Subscript, bound: frozenset[str]) -> bool:
    """Whether the first index, which may be behind slices, is a variable of the loop."""
    first = next((item.slice for item in target.slice if isinstance(item.slice, cst.Index)), None)
    return first is not None and isinstance(first.value, cst.Name) and first.value.value in bound


def is_full(part: cst.CSTNode) -> bool:
    """``:``."""
    return isinstance(part, cst.Slice) and not (part.lower or part.upper or part.step)
