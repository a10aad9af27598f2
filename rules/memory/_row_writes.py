"""Loops whose body only writes items of tensors, each row by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name, dotted_name
from torchlint.model.tensors.placement import Placement

from ._row_fills import is_full
from ._row_values import Level, RowValues, counter, flattened, may_be_channels
from ._row_words import FORMS, SCATTERING_AT_ONCE

#: Operators that give another number for each number.
_SHIFTING = (cst.Add, cst.Subtract, cst.Multiply)
#: How many arguments ``scatter_`` has: a dimension, an index and values.
_SCATTERED = 3
#: What writes a tensor.
_Write = cst.Assign | cst.AugAssign | cst.Expr


@dataclass(frozen=True, eq=False)
class _Body:
    """What the body of a loop is checked with."""

    counter: str | None  #: ``i`` of ``for i in range(n)``
    variables: frozenset[str]  #: of the loop
    names: dict[str, Level | None]  #: of these and of the names that the body binds


class RowWrites:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._values = module.fact(RowValues)

    def target(self, loop: cst.For) -> cst.BaseExpression | None:
        """The first tensor that a loop writes row by row, if it does nothing else.

        The body may give names to values of a row, and ask conditions of a row.
        """
        writes = [*_writes(loop.body)]
        variables = self._values.variables(loop.target, loop.iter)
        if not writes or not self._are_independent(loop, writes):
            return None
        body = _Body(
            counter(self._module, loop.target, loop.iter),
            frozenset(variables),
            {**dict.fromkeys(_named(loop.body)), **variables},
        )
        return flattened(_target_of(writes[0]))[0] if self._is_of_rows(loop.body, body) else None

    def _are_independent(self, loop: cst.For, writes: list[_Write]) -> bool:
        """Whether no iteration reads what another one writes: of the tensors written, only the items, and the size."""
        targets = [_target_of(item) for item in writes]
        bases = {flattened(target)[0] for target in targets}
        written = {dotted_name(base) for base in bases}
        items = {self._module.code(target) for target in targets}
        return None not in written and all(
            part in bases or self._is_in_item(part, items) or self._is_form(part)
            for part in self._tree.nodes_in(loop.body)
            if isinstance(part, (cst.Name, cst.Attribute)) and dotted_name(part) in written
        )

    def _is_form(self, part: cst.CSTNode) -> bool:
        """Whether only the size or type is read: ``out`` of ``out.shape``."""
        above = self._tree.parent(part)
        return isinstance(above, cst.Attribute) and above.value is part and above.attr.value in FORMS

    def _is_in_item(self, part: cst.CSTNode, items: set[str]) -> bool:
        """Whether ``part`` is what one of ``items``, given by their source, is an item of."""
        above = self._tree.parent(part)
        while isinstance(above, cst.Subscript) and above.value is part:
            if self._module.code(above) in items:
                return True
            part, above = above, self._tree.parent(above)
        return False

    def _is_of_rows(self, block: cst.BaseSuite, body: _Body) -> bool:
        return all(self._is_of_row(item, body) for item in _statements(block))

    def _is_of_row(self, item: cst.CSTNode, body: _Body) -> bool:
        """Whether a statement writes a row, or names a value of a row; also statements under a condition of a row."""
        if isinstance(item, cst.If):
            if self._values.level(item.test, body.names) is None or isinstance(item.orelse, cst.If):
                return False
            return self._is_of_rows(item.body, body) and (
                item.orelse is None or self._is_of_rows(item.orelse.body, body)
            )
        if isinstance(item, (cst.Continue, cst.Pass)):
            return True
        if isinstance(item, cst.Expr):
            return _is_scatter(item) and self._scatters(item.value, body)
        if not isinstance(item, cst.AugAssign) and not (isinstance(item, cst.Assign) and len(item.targets) == 1):
            return False
        target = _target_of(item)
        if isinstance(target, cst.Subscript):
            return self._writes_row(item, target, body)
        if not isinstance(target, cst.Name) or isinstance(item, cst.AugAssign) or target.value in body.variables:
            return False
        body.names[target.value] = self._values.level(item.value, body.names)
        return body.names[target.value] is not None

    def _writes_row(self, statement: cst.Assign | cst.AugAssign, target: cst.Subscript, body: _Body) -> bool:
        """Whether a statement writes a row, or a part of it, that the loop counts.

        ``out[i] = f(x[i])``, ``out[start + i] = x[places[i]]``, ``out[i, labels[i]] = 1``,
        ``mask[i, : lengths[i]] = value``, ``out[i] = row``; also sums by group, ``sums[labels[i]] += x[i]``, and one
        value at places that a tensor names, ``mask[places[i]] = 1``, or a list, if ``mask`` is on the GPU.
        """
        base, indices = flattened(target)
        levels = [self._values.index_level(part, body.names) for part in indices]
        varying = [place for place, level in enumerate(levels) if level is not Level.FIXED]
        if None in levels or not varying or not self._values.is_tensor(base):
            return False
        row, others, before = indices[varying[0]], varying[1:], indices[: varying[0]]
        if not isinstance(row, cst.Index):
            return False
        is_variable = isinstance(row.value, cst.Name) and row.value.value in body.variables
        if is_variable and not others and self._selects(statement, target, body.variables):
            return True
        value = self._values.level(statement.value, body.names)
        if all(levels[place] is Level.ROW and isinstance(indices[place], cst.Index) for place in varying):
            is_free = _adds(statement) and value in (Level.ROW, Level.FIXED)
            return (is_free or self._sets(statement, value)) and not may_be_channels(before)
        if all(levels[place] in (Level.ROW, Level.OTHER) for place in varying) and self._sets(statement, value):
            selected = all(_is_selected(indices[place]) for place in varying)
            return selected and self._may_be_on_gpu(base) and not may_be_channels(before)
        if not others and _adds(statement) and value is Level.NUMBER:  # `places[:, i] += i * size`
            return self._counts(row.value, body)
        if may_be_channels(before) or not self._counts(row.value, body):
            return False
        if any(isinstance(indices[place], cst.Slice) for place in others):  # each row up to a length of its own
            is_filled = value is Level.FIXED or self._is_row_of_one_number(statement.value)
            return len(others) == 1 and (is_filled or self._copies_part(statement.value, target))
        if any(levels[place] is not Level.ROW and not self._is_one_item(indices[place]) for place in others):
            if not self._may_be_on_gpu(base):  # there, an index of a list is slow, too
                return False
        return value is Level.ROW or (value is Level.FIXED and isinstance(statement, cst.Assign))

    def _may_be_on_gpu(self, base: cst.BaseExpression) -> bool:
        """Whether a tensor is on the GPU, or moved to an unknown device: ``torch.zeros(n).to(self.device)``."""
        device = self._module.value(base).device
        made = self._module.values.reaching.assigned(base) if device is None else None
        moves = self._module.fact(Placement).moves if made is not None else ()
        return device is Device.CUDA or any(move.call is made for move in moves)

    def _sets(self, statement: cst.Assign | cst.AugAssign, value: Level | None) -> bool:
        """Whether a statement sets the same value at all places, be it several times: ``mask[places[i]] = 1``."""
        return isinstance(statement, cst.Assign) and value is Level.FIXED

    def _scatters(self, call: cst.BaseExpression, body: _Body) -> bool:
        """``mask.scatter_(1, i + places, True)``, which may set an item several times, and ``sums.index_add_(...)``."""
        assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        if len(call.args) < _SCATTERED or any(item.star for item in call.args):
            return False
        dim, index, *values = (self._values.level(item.value, body.names) for item in call.args)
        allowed = (Level.FIXED,) if called_name(call) == "scatter_" else (Level.FIXED, Level.ROW)
        is_of_row = dim is Level.FIXED and index is Level.ROW and all(value in allowed for value in values)
        return is_of_row and self._values.is_tensor(call.func.value)

    def _is_one_item(self, index: cst.BaseSlice) -> bool:
        """``lengths[i] - 1``, ``int(lengths[i])``: numbers, be they in a tensor or in a list."""
        value = index.value if isinstance(index, cst.Index) else None
        if isinstance(value, cst.Call):
            return self._module.name_of(value.func) == "builtins.int" or called_name(value) == "item"
        return isinstance(value, cst.BinaryOperation) and isinstance(value.operator, _SHIFTING)

    def _counts(self, index: cst.BaseExpression, body: _Body) -> bool:
        """Whether each iteration has another ``index``: ``i``, ``start + i``, ``2 * i``."""
        if isinstance(index, cst.Name):
            return index.value == body.counter
        if not isinstance(index, cst.BinaryOperation) or not isinstance(index.operator, _SHIFTING):
            return False
        levels = [self._values.level(side, body.names) for side in (index.left, index.right)]
        counting = index.right if levels[0] is Level.FIXED else index.left
        return Level.FIXED in levels and self._counts(counting, body)

    def _selects(self, statement: cst.Assign | cst.AugAssign, target: cst.Subscript, variables: frozenset[str]) -> bool:
        """``rows[:, :, i] = others[:, :, j]``, both of them variables of the loop."""
        value = statement.value
        if not isinstance(value, cst.Subscript) or isinstance(statement, cst.AugAssign):
            return False
        pairs = [(mine.slice, its.slice) for mine, its in zip(target.slice, value.slice, strict=False)]
        named = [pair for pair in pairs if not all(map(is_full, pair))]
        indices = {self._module.code(part) for pair in named for part in pair if not is_full(part)}
        return (
            len(target.slice) == len(value.slice)
            and len(named) == 1
            and len(indices) == 2
            and indices <= variables
            and self._values.is_tensor(value.value)
        )

    def _is_row_of_one_number(self, value: cst.BaseExpression) -> bool:
        """``row`` of ``for i, row in enumerate(rows)``, where ``rows = [torch.ones(n) for n in lengths]``."""
        reaching = self._module.values.reaching
        bound = reaching.only(value) if isinstance(value, cst.Name) else None
        if bound is None or bound.kind is not BindingKind.FOR or bound.value is None:
            return False
        sources = [*iterables(self._module.names, bound.value, bound.path)]
        rows: cst.CSTNode | None = sources[0][0] if len(sources) == 1 and not sources[0][1] else None
        made = reaching.only(rows) if isinstance(rows, cst.Name) else None
        rows = made.value if made is not None and not made.path else rows
        row = rows.elt if isinstance(rows, cst.ListComp) else None
        return isinstance(row, cst.Call) and self._module.name_of(row.func) in ("torch.ones", "torch.zeros")

    def _copies_part(self, value: cst.BaseExpression, target: cst.Subscript) -> bool:
        """``others[i, :length]`` for ``rows[i, :length]``."""
        if not isinstance(value, cst.Subscript) or not self._values.is_tensor(value.value):
            return False
        places = [[self._module.code(item) for item in node.slice] for node in (target, value)]
        return places[0] == places[1]


def _adds(statement: cst.Assign | cst.AugAssign) -> bool:
    """Whether a statement may write one place several times, in any order."""
    return isinstance(statement, cst.AugAssign) and isinstance(statement.operator, (cst.AddAssign, cst.SubtractAssign))


def _is_selected(index: cst.BaseSlice) -> bool:
    """``places[i]``, which may be an item of a list."""
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Subscript)


def _target_of(statement: _Write) -> cst.BaseExpression:
    if isinstance(statement, cst.Expr):
        assert isinstance(statement.value, cst.Call) and isinstance(statement.value.func, cst.Attribute)
        return statement.value.func.value
    return statement.target if isinstance(statement, cst.AugAssign) else statement.targets[0].target


def _statements(block: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for row in block.body:
        if isinstance(row, cst.SimpleStatementLine):
            yield from row.body
        else:
            yield row


def _assigned(block: cst.BaseSuite) -> Iterator[_Write]:
    """The assignments in a block, and the calls of methods such as ``scatter_``, also under conditions."""
    for item in _statements(block):
        if isinstance(item, (cst.Assign, cst.AugAssign)) or _is_scatter(item):
            assert isinstance(item, (cst.Assign, cst.AugAssign, cst.Expr))
            yield item
        elif isinstance(item, cst.If):
            yield from _assigned(item.body)
            if isinstance(item.orelse, cst.Else):
                yield from _assigned(item.orelse.body)


def _is_scatter(item: cst.CSTNode) -> bool:
    """``mask.scatter_(...)``, of a whole tensor."""
    call = item.value if isinstance(item, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    return call.func.attr.value in SCATTERING_AT_ONCE and isinstance(call.func.value, (cst.Name, cst.Attribute))


def _is_item(statement: _Write) -> bool:
    return isinstance(_target_of(statement), cst.Subscript)


def _writes(block: cst.BaseSuite) -> Iterator[_Write]:
    return (item for item in _assigned(block) if isinstance(item, cst.Expr) or _is_item(item))


def _named(block: cst.BaseSuite) -> Iterator[str]:
    targets = (_target_of(item) for item in _assigned(block) if not isinstance(item, cst.Expr))
    return (target.value for target in targets if isinstance(target, cst.Name))
