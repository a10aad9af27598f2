"""Loops that write a tensor row by row, or count the elements of a tensor one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.tensor_forms import METHODS, TensorForms
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes

from ._row_fills import RowFills, is_full, is_part_of_row, is_row
from ._row_words import FEW, ONCE, SCATTERING

_MANY = 16  #: iterations below which a loop costs little
#: Methods that only tensors have.
_TENSOR_METHODS = frozenset({"long", "cpu", "cuda", "detach", "float", "int"})
#: Functions that compute each row of their arguments from that row alone.
_ROWWISE = frozenset(
    "abs acos add asin atan2 bmm ceil clamp cos cross cumsum div dot einsum eq erf exp floor ge gt le log "
    "log1p logical_and logical_not logical_or lt matmul max mean min mm mul ne norm outer pow reciprocal relu "
    "round rsqrt sigmoid sign sin softmax sort sqrt square std sub sum tan tanh topk trace where mv argmax "
    "argmin var logsumexp cosine_similarity log_softmax normalize tril triu".split()
)
#: Methods that compute each row from that row alone.
_ROWWISE_METHODS = (METHODS - {"cpu", "cuda", "to", "clone"}) | {"dot", "matmul", "mm", "mv", "t", "transpose", "pow"}


@dataclass(frozen=True, eq=False)
class RowLoop:
    """A loop that one operation on whole tensors can replace."""

    loop: cst.For
    target: cst.BaseExpression  #: the tensor that it writes
    counts: bool  #: whether it adds numbers at places that the elements of a tensor name


class RowLoops:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._fills = module.fact(RowFills)

    def all(self) -> Iterator[RowLoop]:
        """The loops in the file, in order."""
        for loop in self._tree.loops:
            if isinstance(loop, cst.For) and self._module.is_own(loop):
                found = self._row_loop(loop)
                if found is not None:
                    yield found

    def _row_loop(self, loop: cst.For) -> RowLoop | None:
        bound = [node.value for node in self._tree.nodes_in(loop.target) if isinstance(node, cst.Name)]
        if loop.orelse is not None or not self._is_long(loop, bound) or self._is_once(loop):
            return None
        whole = self._scattered(loop, frozenset(bound)) or self._filled(loop, frozenset(bound))
        if whole is not None:
            return RowLoop(loop, whole, counts=False)
        named, statements = self._statements(loop)
        if not statements or named is None:
            return None
        written = {self._written_by(item) for item in statements}
        if None in written:
            return None
        names = {name for name in written if name is not None}
        if any(self._reads(item, names, loop) for item in statements):
            return None
        if named:
            names_of_row = frozenset((*bound, *named))
            if not self._copies(statements, names_of_row):
                return None
            return RowLoop(loop, self._target_of(statements[0]).value, counts=False)
        forms = {self._form(item, loop, frozenset(bound)) for item in statements}
        if None in forms or len(forms) != 1:
            return None
        return RowLoop(loop, self._target_of(statements[0]).value, forms == {"count"})

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
                waiting -= {
                    part.value for part in self._tree.nodes_in(item.targets[0].target) if isinstance(part, cst.Name)
                }
        return True

    def _copies(self, statements: list[cst.Assign | cst.AugAssign], bound: frozenset[str]) -> bool:
        """Whether each statement copies a window of a row, or the same items of another tensor; one may set a value."""
        copied = False
        for item in statements:
            target, value = self._target_of(item), item.value
            if isinstance(item, cst.AugAssign) or not self._is_tensor(target.value):
                return False
            if isinstance(value, cst.Subscript):
                if not self._is_window(target, value, bound) and not self._is_same_place(target, value, bound):
                    return False
                copied = True
            elif not isinstance(value, (cst.Name, cst.Attribute)) or dotted_name(value) in bound:
                return False
        return copied

    def _is_window(self, target: cst.Subscript, value: cst.Subscript, bound: frozenset[str]) -> bool:
        """``rows[i]`` and ``x[i, :, start:end]``: as many items of each row."""
        if len(target.slice) != 1 or not is_row(target, bound) or not is_row(value, bound):
            return False
        first, *others = (item.slice for item in value.slice)
        windows = [
            part for part in others if isinstance(part, cst.Slice) and part.lower and part.upper and not part.step
        ]
        named = {node.value for part in windows for node in self._tree.nodes_in(part) if isinstance(node, cst.Name)}
        plain = all(isinstance(part, cst.Slice) and not part.step for part in others)
        return isinstance(first, cst.Index) and len(windows) == 1 and plain and not named.isdisjoint(bound)

    def _is_selection(self, target: cst.Subscript, value: cst.Subscript, bound: frozenset[str]) -> bool:
        """``rows[:, :, i]`` and ``others[:, :, j]``, both of them variables of the loop."""
        pairs = [(mine.slice, its.slice) for mine, its in zip(target.slice, value.slice, strict=False)]
        named = [pair for pair in pairs if not all(map(is_full, pair))]
        indices = {self._module.code(part) for pair in named for part in pair if not is_full(part)}
        return (
            len(target.slice) == len(value.slice)
            and len(named) == 1
            and len(indices) == 2
            and is_row(value, bound)
            and self._is_tensor(value.value)
        )

    def _is_same_place(self, target: cst.Subscript, value: cst.Subscript, bound: frozenset[str]) -> bool:
        """``rows[k, place, :]`` and ``others[k, place, :]``."""
        places = [[self._module.code(item) for item in node.slice] for node in (target, value)]
        named = [item.slice.value for item in target.slice if isinstance(item.slice, cst.Index)]
        return places[0] == places[1] and any(isinstance(node, cst.Name) and node.value in bound for node in named)

    def _is_long(self, loop: cst.For, bound: list[str]) -> bool:
        """Whether there may be many iterations: rows and elements, not layers or channels."""
        given = [item.value for item in loop.iter.args] if isinstance(loop.iter, cst.Call) else []
        if any(isinstance(item, (cst.List, cst.Tuple)) for item in (loop.iter, *given)):
            return False
        if any(FEW.search(name) for name in bound):
            return False
        if any(map(FEW.search, self._names_in(loop.iter))):
            return False
        if isinstance(loop.iter, cst.Call) and self._module.name_of(loop.iter.func) == "builtins.range":
            if len(loop.iter.args) > 1 and not self._starts_at_zero(loop.iter):
                return False
            last = loop.iter.args[min(1, len(loop.iter.args) - 1)].value if loop.iter.args else None
            constant = self._module.value(last).constant
            return not (isinstance(constant, int) and constant < _MANY)
        return True

    def _names_in(self, node: cst.CSTNode) -> Iterator[str]:
        """The variables and attributes in an expression, without the functions and methods that it calls."""
        for part in self._tree.nodes_in(node):
            above = self._tree.parent(part)
            if isinstance(part, cst.Name) and not (isinstance(above, cst.Call) and above.func is part):
                method = isinstance(above, cst.Attribute) and above.attr is part
                call = self._tree.parent(above) if above is not None and method else None
                if not (isinstance(call, cst.Call) and call.func is above):
                    yield part.value

    def _starts_at_zero(self, call: cst.Call) -> bool:
        return len(call.args) == 2 and self._module.value(call.args[0].value).constant == 0

    def _is_once(self, loop: cst.For) -> bool:
        """Whether a constructor or the top level of a file runs the loop, and no other loop does."""
        function = self._module.function_of(loop)
        if function is None:
            return not self._module.fact(Loops).around(loop)
        if self._module.fact(Purposes).is_constructor(function):
            return True
        return ONCE.search(function.name.value) is not None

    def _filled(self, loop: cst.For, bound: frozenset[str]) -> cst.BaseExpression | None:
        """The tensor of ``target[i, :length].fill_(1)``, if the body only fills rows up to a length of their own."""
        targets = self._fills.targets(loop, bound)
        return targets[0] if targets and all(map(self._is_tensor, targets)) else None

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

    def _reads(self, statement: cst.Assign | cst.AugAssign, names: set[str], loop: cst.For) -> bool:
        """Whether a statement reads what the loop writes, so that an iteration depends on another one.

        Not the row that it replaces: ``x[i] = torch.triu(x[i])``.
        """
        target = self._target_of(statement)
        parts = [*self._tree.nodes_in(statement.value)]
        for item in target.slice:
            parts += self._tree.nodes_in(item)
        replaced = self._module.code(target) if self._is_counted(target, loop) else None
        return any(
            dotted_name(part) in names
            for part in parts
            if isinstance(part, (cst.Name, cst.Attribute)) and not self._is_in_item(part, replaced)
        )

    def _is_in_item(self, part: cst.CSTNode, item: str | None) -> bool:
        """Whether ``part`` is what ``item``, given by its source, is an item of."""
        above = self._tree.parent(part)
        return isinstance(above, cst.Subscript) and above.value is part and self._module.code(above) == item

    def _is_counted(self, target: cst.Subscript, loop: cst.For) -> bool:
        """Whether an item has another index at each iteration: ``x[i, [1, 3]]`` in ``for i in range(n)``."""
        name = self._module.name_of(loop.iter.func) if isinstance(loop.iter, cst.Call) else None
        counter: cst.BaseExpression | None = loop.target if name == "builtins.range" else None
        if name == "builtins.enumerate" and isinstance(loop.target, cst.Tuple):
            counter = loop.target.elements[0].value
        return isinstance(counter, cst.Name) and is_part_of_row(target, frozenset({counter.value}))

    def _form(self, statement: cst.Assign | cst.AugAssign, loop: cst.For, bound: frozenset[str]) -> str | None:
        """How one operation can do what ``statement`` does at all iterations; None if it is not known."""
        target = self._target_of(statement)
        if isinstance(statement, cst.AugAssign):
            return "count" if self._counts(statement, target, loop, bound) else None
        if not is_row(target, bound) or not self._is_tensor(target.value):
            return None
        if self._fills.is_number(statement.value):
            return "rows" if self._fills.is_filled_by_length(target, bound) else None
        value = statement.value
        is_copy = isinstance(value, cst.Subscript) and (
            self._is_window(target, value, bound) or self._is_selection(target, value, bound)
        )
        return "rows" if is_copy or self._is_rowwise(value, bound) else None

    def _counts(self, statement: cst.AugAssign, target: cst.Subscript, loop: cst.For, bound: frozenset[str]) -> bool:
        """``matrix[t.long(), p.long()] += 1`` over the elements of tensors."""
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
        return used == bound and self._iterates_over_elements(loop)

    def _iterates_over_elements(self, loop: cst.For) -> bool:
        """Whether a loop iterates over tensors of one dimension, alone or in ``zip``."""
        over = [loop.iter]
        if isinstance(loop.iter, cst.Call) and self._module.name_of(loop.iter.func) == "builtins.zip":
            over = [item.value for item in loop.iter.args]
        return bool(over) and all(map(self._is_line, over))

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
        return method in ("flatten", "reshape") and given in ([], ["-1"]) and self._is_tensor(node.func.value)

    def _is_rowwise(self, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """Whether an expression computes a row from the same row of tensors, by operations of torch."""
        reads_row = False
        for part in self._tree.nodes_in(node):
            if isinstance(part, cst.Call):
                if not self._is_rowwise_call(part):
                    return False
            elif isinstance(part, cst.Subscript):
                if is_part_of_row(part, bound):
                    reads_row = reads_row or self._is_tensor(part.value)
                    if not self._is_tensor(part.value):
                        return False
                else:
                    return False
            elif isinstance(part, (cst.Lambda, cst.IfExp, cst.ListComp, cst.GeneratorExp, cst.FormattedString)):
                return False
        free = [
            part
            for part in self._tree.nodes_in(node)
            if isinstance(part, cst.Name) and part.value in bound and not self._is_index(part)
        ]
        return reads_row and not free

    def _is_index(self, name: cst.Name) -> bool:
        return isinstance(self._tree.parent(name), cst.Index)

    def _is_rowwise_call(self, call: cst.Call) -> bool:
        name = self._module.name_of(call.func)
        if name is not None:
            owner, _, last = name.rpartition(".")
            return owner in ("torch", "torch.nn.functional", "torch.linalg") and last in _ROWWISE
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in _ROWWISE_METHODS

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        value = self._module.value(node)
        if value.kind is Kind.TENSOR and value.sure and value.role is not Role.BATCH:
            return True
        return self._module.fact(TensorForms).is_tensor(node, self._has_size)

    def _has_size(self, name: cst.Name) -> bool:
        """Whether a variable is asked for its size, and is no part of a batch, which may be on the CPU."""
        is_batch = self._module.value(name).role is Role.BATCH
        return not is_batch and self._module.fact(TensorForms).is_asked_for_size(name)
