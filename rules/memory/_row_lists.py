"""Rows that are computed one by one into a list, which ``torch.stack`` or ``torch.cat`` joins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.dotted import bare, called_name, index_of
from torchlint.model.syntax.scopes import unpacked

from ._row_iterations import RowIterations
from ._row_values import Level, Levels, RowValues
from ._row_words import COUNTING_IN, SIZES, VIEWS

_JOINING = ("torch.stack", "torch.cat", "torch.concat", "torch.vstack", "torch.hstack")
_COUNTING = ("builtins.range", "builtins.enumerate", "builtins.zip")


@dataclass(frozen=True, eq=False)
class RowList:
    """A list of rows that one operation on whole tensors can replace."""

    node: cst.CSTNode  #: the comprehension, or what the loop that appends iterates over
    calls: tuple[cst.Call, ...]  #: what joins the rows


class RowLists:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._values = module.fact(RowValues)

    def all(self) -> Iterator[RowList]:
        """The lists in the file, in order of the calls that join them; the lists of one loop are one."""
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in self._module.own_calls(*_JOINING):
            given = call.node.args[0] if call.node.args else None
            if given is None or given.star or self._module.fact(RowIterations).is_once(call.node):
                continue
            if self._module.fact(RowIterations).saves_memory(call.node):
                continue
            made: cst.CSTNode | None = None
            if isinstance(given.value, (cst.ListComp, cst.GeneratorExp)):
                made = given.value if self._is_of_rows(given.value) else None
            elif isinstance(given.value, cst.Name):
                loop = self._loop_of(given.value)
                made = None if loop is None or self._module.fact(RowIterations).saves_memory(loop) else loop.iter
            if made is not None:
                found.setdefault(made, []).append(call.node)
        return (RowList(node, tuple(calls)) for node, calls in found.items())

    def _is_of_rows(self, made: cst.ListComp | cst.GeneratorExp) -> bool:
        """``[x[i] / sizes[i] for i in range(n)]``."""
        source = made.for_in
        if source.inner_for_in is not None or source.ifs or not self._repeats(source.target, source.iter):
            return False
        return self._is_computed(made.elt, self._values.variables(source.target, source.iter))

    def _is_computed(self, row: cst.BaseExpression, names: Levels, computed: Collection[str] = ()) -> bool:
        """Whether a row needs kernels of its own; ``computed``: the names of rows that do.

        ``x[i]``, ``x[i].unsqueeze(0)`` and ``x[i, :, start[i] : end[i]]`` are only views, and so is ``x[i, places[i]]``
        if the places are numbers on the CPU.
        """
        row, names = self._values.inlined(row, names)
        level = self._values.level(row, names)
        if level is Level.NUMBER:
            return isinstance(row, cst.BinaryOperation)  # `start + i * step`, of tensors because they are joined
        return level is Level.ROW and any(
            self._launches(part, names) or (isinstance(part, cst.Name) and part.value in computed)
            for part in self._tree.nodes_in(row)
            if not self._is_number(part, row, names)
        )

    def _is_number(self, part: cst.CSTNode, row: cst.BaseExpression, names: Levels) -> bool:
        """Whether ``part`` of a row belongs to a bound of a slice, or to an index, that is a number on the host."""
        return any(
            isinstance(above, cst.Slice) or (isinstance(above, cst.Index) and self._is_on_host(above.value, names))
            for above, _ in climb(self._tree, part, row)
        )

    def _is_on_host(self, index: cst.BaseExpression, names: Levels) -> bool:
        """``places[i]`` and ``places[i] + 1`` of a tensor of one dimension that is on the CPU."""
        if isinstance(index, cst.BinaryOperation):
            sides = (index.left, index.right)
            return all(isinstance(side, cst.Integer) or self._is_on_host(side, names) for side in sides)
        number = index_of(index) if isinstance(index, cst.Subscript) else None
        if number is None or self._values.level(number, names) is not Level.NUMBER:
            return False
        assert isinstance(index, cst.Subscript)
        is_line = self._module.fact(TensorForms).is_line(index.value)
        return is_line and self._module.value(index.value).device is Device.CPU

    def _launches(self, part: cst.CSTNode, names: Levels) -> bool:
        if isinstance(part, cst.Subscript):
            indices = (item.slice for item in part.slice if isinstance(item.slice, cst.Index))
            return any(
                self._values.index_level(index, names) is Level.ROW and not self._is_on_host(index.value, names)
                for index in indices
            )
        if isinstance(part, cst.Call):
            return called_name(part) not in VIEWS | SIZES
        return isinstance(part, (cst.BinaryOperation, cst.Comparison))

    def _repeats(self, target: cst.BaseExpression, over: cst.BaseExpression) -> bool:
        """Whether a loop may have many iterations, over numbers or the elements of tensors."""
        is_counting = isinstance(over, cst.Call) and self._module.name_of(over.func) in _COUNTING
        if not is_counting and not self._is_arange(over):
            if isinstance(over, cst.Call) or not self._values.is_tensor(over):
                return False
        return self._module.fact(RowIterations).is_long(target, over)

    def _is_arange(self, over: cst.BaseExpression) -> bool:
        """``torch.arange(len(x))``, also cast: ``torch.arange(n).long()``."""
        made = bare(over, COUNTING_IN, ())
        return isinstance(made, cst.Call) and self._module.name_of(made.func) == "torch.arange"

    def _loop_of(self, name: cst.Name) -> cst.For | None:
        """The loop that appends each element of a list: its body does nothing else."""
        reached = self._module.values.reaching.of(name)
        is_assigned = len(reached) == 1 and reached[0].kind is BindingKind.ASSIGN
        made = unpacked(reached[0].value, reached[0].path) if is_assigned else None
        home = self._module.names.home_of(name)
        if not isinstance(made, cst.List) or made.elements or home is None:
            return None
        appends = [
            call for use in self._module.names.uses_in(home, name.value) if (call := self._appending(use)) is not None
        ]
        loop = nearest(self._tree, appends[0], cst.For) if len(appends) == 1 else None
        if not isinstance(loop, cst.For) or loop.orelse is not None or not self._repeats(loop.target, loop.iter):
            return None
        return loop if self._appends_rows(loop) else None

    def _appending(self, use: cst.Name) -> cst.Call | None:
        """The call ``found.append(x)`` in which ``found`` is used."""
        method = self._tree.parent(use)
        call = self._tree.parent(method) if method is not None else None
        if not isinstance(method, cst.Attribute) or not isinstance(call, cst.Call) or call.func is not method:
            return None
        return call if method.attr.value == "append" and len(call.args) == 1 else None

    def _appends_rows(self, loop: cst.For) -> bool:
        """Whether all statements of a loop append a row to a list, or name a value of a row."""
        statements = [item for row in loop.body.body if isinstance(row, cst.SimpleStatementLine) for item in row.body]
        assigned = [item for item in statements if isinstance(item, cst.Assign)]
        targets = [item.targets[0].target for item in assigned]
        names: dict[str, Level | None] = dict.fromkeys(item.value for item in targets if isinstance(item, cst.Name))
        names.update(self._values.variables(loop.target, loop.iter))
        if len(statements) < len(loop.body.body) or len(names) < len(targets):
            return False
        computed: set[str] = set()
        for item in statements:
            if isinstance(item, cst.Assign):
                target = item.targets[0].target
                if not isinstance(target, cst.Name) or len(item.targets) != 1:
                    return False
                names[target.value] = self._values.level(item.value, names)
                if names[target.value] is None:
                    return False
                if self._is_computed(item.value, names, computed):
                    computed.add(target.value)
            elif not isinstance(item, cst.Expr) or not self._appends_row(item.value, names, computed):
                return False
        return True

    def _appends_row(self, call: cst.BaseExpression, names: Levels, computed: Collection[str]) -> bool:
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return False
        is_append = call.func.attr.value == "append" and len(call.args) == 1
        return is_append and self._is_computed(call.args[0].value, names, computed)
