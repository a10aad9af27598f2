"""Loops that write a tensor row by row, or count the elements of a tensor one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.syntax.dotted import called_name, dotted_name

from ._row_fills import RowFills, is_row
from ._row_iterations import RowIterations
from ._row_values import RowValues
from ._row_words import SCATTERING
from ._row_writes import RowWrites

#: Methods that only tensors have.
_TENSOR_METHODS = frozenset({"long", "cpu", "cuda", "detach", "float", "int"})


@dataclass(frozen=True, eq=False)
class LoopOverRows:
    """A loop that one operation on whole tensors can replace."""

    loop: cst.For
    target: cst.BaseExpression  #: the tensor that it writes
    counts: bool  #: whether it adds numbers at places that the elements of a tensor name


class LoopsOverRows:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._fills = module.fact(RowFills)
        self._values = module.fact(RowValues)
        self._writes = module.fact(RowWrites)

    def all(self) -> Iterator[LoopOverRows]:
        """The loops in the file, in order."""
        for loop in self._tree.loops:
            if isinstance(loop, cst.For) and self._module.is_own(loop):
                found = self._row_loop(loop)
                if found is not None:
                    yield found

    def _row_loop(self, loop: cst.For) -> LoopOverRows | None:
        iterations = self._module.fact(RowIterations)
        if loop.orelse is not None or not iterations.is_long(loop.target, loop.iter) or iterations.is_once(loop):
            return None
        if iterations.saves_memory(loop):
            return None
        bound = frozenset(self._tree.names_in(loop.target))
        whole = self._scattered(loop, bound) or self._filled(loop, bound) or self._writes.target(loop)
        if whole is not None:
            return LoopOverRows(loop, whole, counts=False)
        named, statements = self._statements(loop)
        if not statements or named is None:
            return None
        written = {self._written_by(item) for item in statements}
        if None in written or any(self._reads(item, written) for item in statements):
            return None
        target = self._target_of(statements[0]).value
        if named:
            names_of_row = frozenset((*bound, *named))
            return LoopOverRows(loop, target, counts=False) if self._copies(statements, names_of_row) else None
        counts = all(isinstance(item, cst.AugAssign) and self._counts(item, loop, bound) for item in statements)
        return LoopOverRows(loop, target, counts=True) if counts else None

    # -- the loop

    def _statements(self, loop: cst.For) -> tuple[list[str] | None, list[cst.Assign | cst.AugAssign]]:
        """The names that the body gives to numbers of a row, and its other statements, if all assign to an item."""
        named: list[str] = []
        found: list[cst.Assign | cst.AugAssign] = []
        for row in loop.body.body:
            for item in row.body if isinstance(row, cst.SimpleStatementLine) else (row,):
                if not isinstance(item, cst.AugAssign) and not (
                    isinstance(item, cst.Assign) and len(item.targets) == 1
                ):
                    return None, []
                target = item.target if isinstance(item, cst.AugAssign) else item.targets[0].target
                if isinstance(target, cst.Name) and isinstance(item, cst.Assign) and not found:
                    named.append(target.value)
                elif isinstance(target, cst.Subscript):
                    found.append(item)
                else:
                    return None, []
        return named if self._are_of_row(loop, named) else None, found

    def _are_of_row(self, loop: cst.For, named: list[str]) -> bool:
        """Whether the names that a body begins with are computed from the loop variables and what is before the loop.

        So for ``start = starts[i]`` and ``end = start + size``.
        """
        waiting = set(named)
        for row in loop.body.body[: len(named)]:
            for item in row.body if isinstance(row, cst.SimpleStatementLine) else ():
                if not isinstance(item, cst.Assign):
                    return False
                parts = self._tree.nodes_in(item.value)
                if any(isinstance(part, cst.Call) and not self._fills.is_read(part) for part in parts):
                    return False
                if any(isinstance(part, cst.Name) and part.value in waiting for part in parts):
                    return False  # of the iteration before
                waiting -= self._tree.names_in(item.targets[0].target)
        return True

    def _copies(self, statements: list[cst.Assign | cst.AugAssign], bound: frozenset[str]) -> bool:
        """Whether each statement copies the same items of another tensor; one may set a value."""
        copied = False
        for item in statements:
            target, value = self._target_of(item), item.value
            if isinstance(item, cst.AugAssign) or not self._values.is_tensor(target.value):
                return False
            if isinstance(value, cst.Subscript):
                if not self._is_same_place(target, value, bound):
                    return False
                copied = True
            elif not isinstance(value, (cst.Name, cst.Attribute)) or dotted_name(value) in bound:
                return False
        return copied

    def _is_same_place(self, target: cst.Subscript, value: cst.Subscript, bound: frozenset[str]) -> bool:
        """``rows[k, place, :]`` and ``others[k, place, :]``."""
        places = [[self._module.code(item) for item in node.slice] for node in (target, value)]
        named = [item.slice.value for item in target.slice if isinstance(item.slice, cst.Index)]
        return places[0] == places[1] and any(isinstance(node, cst.Name) and node.value in bound for node in named)

    def _filled(self, loop: cst.For, bound: frozenset[str]) -> cst.BaseExpression | None:
        """The tensor of ``target[i, :length].fill_(1)``, if the body only fills rows up to a length of their own."""
        targets = self._fills.targets(loop, bound)
        return targets[0] if targets and all(map(self._values.is_tensor, targets)) else None

    # -- rows of a scatter

    def _scattered(self, loop: cst.For, bound: frozenset[str]) -> cst.BaseExpression | None:
        """The tensor of ``target[i].index_add_(0, index[i], source[i])``, if the body consists of such calls."""
        targets: list[cst.BaseExpression] = []
        for row in loop.body.body:
            for item in row.body if isinstance(row, cst.SimpleStatementLine) else (row,):
                target = self._scatters(item.value, bound) if isinstance(item, cst.Expr) else None
                if target is None:
                    return None
                targets.append(target)
        return targets[0] if targets else None

    def _scatters(self, call: cst.BaseExpression, bound: frozenset[str]) -> cst.BaseExpression | None:
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) < 3:
            return None
        target, given = call.func.value, [item.value for item in call.args]
        if call.func.attr.value not in SCATTERING or any(item.star or item.keyword for item in call.args):
            return None
        if not isinstance(target, cst.Subscript) or not self._is_item(target, bound):
            return None
        if not isinstance(given[0], (cst.Integer, cst.UnaryOperation)) or not self._is_of_row(given[1], bound):
            return None
        return (
            target.value
            if all(self._fills.is_number(item) or self._is_of_row(item, bound) for item in given[2:])
            else None
        )

    def _is_item(self, node: cst.CSTNode, bound: frozenset[str]) -> bool:
        """``rows[i]``."""
        return isinstance(node, cst.Subscript) and len(node.slice) == 1 and is_row(node, bound)

    def _is_of_row(self, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """``index[i]``, ``index[i].long()``."""
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            node = node.func.value
        return self._is_item(node, bound)

    # -- one statement

    def _target_of(self, statement: cst.Assign | cst.AugAssign) -> cst.Subscript:
        target = statement.target if isinstance(statement, cst.AugAssign) else statement.targets[0].target
        assert isinstance(target, cst.Subscript)
        return target

    def _written_by(self, statement: cst.Assign | cst.AugAssign) -> str | None:
        return dotted_name(self._target_of(statement).value)

    def _reads(self, statement: cst.Assign | cst.AugAssign, names: set[str | None]) -> bool:
        """Whether a statement reads what the loop writes, so that an iteration depends on another one."""
        parts = [*self._tree.nodes_in(statement.value)]
        for item in self._target_of(statement).slice:
            parts += self._tree.nodes_in(item)
        return any(dotted_name(part) in names for part in parts if isinstance(part, (cst.Name, cst.Attribute)))

    def _counts(self, statement: cst.AugAssign, loop: cst.For, bound: frozenset[str]) -> bool:
        """``matrix[t.long(), p.long()] += 1`` over the elements of tensors."""
        target = self._target_of(statement)
        if not isinstance(statement.operator, cst.AddAssign) or not self._fills.is_number(statement.value):
            return False
        used: set[str] = set()
        for item in target.slice:
            if not isinstance(item.slice, cst.Index):
                return False
            node: cst.BaseExpression = item.slice.value
            while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
                if node.func.attr.value not in _TENSOR_METHODS | {"item"}:
                    return False
                node = node.func.value
            if not isinstance(node, cst.Name) or node.value not in bound:
                return False
            used.add(node.value)
        return used == bound and self._iterates_over_elements(loop, target)

    def _iterates_over_elements(self, loop: cst.For, target: cst.Subscript) -> bool:
        """Whether a loop iterates over tensors of one dimension, alone or in ``zip``.

        Also over ``labels.tolist()``, if it counts in a tensor.
        """
        over = [loop.iter]
        if isinstance(loop.iter, cst.Call) and self._module.name_of(loop.iter.func) == "builtins.zip":
            over = [item.value for item in loop.iter.args]
        in_tensor = self._values.is_tensor(target.value)
        return bool(over) and all(self._is_line(item) or (in_tensor and _is_listed(item)) for item in over)

    def _is_line(self, node: cst.BaseExpression) -> bool:
        """``target.view(-1)``, ``preds.flatten()``: arrays have no ``view(-1)``."""
        if self._module.fact(TensorForms).is_line(node):
            return True
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        method, given = node.func.attr.value, [self._module.code(item.value) for item in node.args]
        if method == "view" and given == ["-1"]:
            return True
        if method in _TENSOR_METHODS and not node.args:
            return self._is_line(node.func.value)
        return method in ("flatten", "reshape") and given in ([], ["-1"]) and self._values.is_tensor(node.func.value)


def _is_listed(node: cst.BaseExpression) -> bool:
    """``labels.tolist()``."""
    return isinstance(node, cst.Call) and called_name(node) == "tolist" and not node.args
