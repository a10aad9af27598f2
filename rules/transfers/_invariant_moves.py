"""Modules and tensors that a step loop moves to the GPU again and again, though nothing in it changes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.invariance import Invariance
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.dotted import base_of, dotted_name, last_part
from torchlint.model.tensors.placement import Move, Placement
from torchlint.model.tensors.writes import Moves
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import LoopKind, Loops
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

from ._host_tensors import HostTensors
from ._indirect import IndirectMoves
from ._kept_on_host import KeptOnHost
from ._module_uses import ModuleUses
from ._repeat_words import RUNNING
from ._repeated_modules import LOADING, RepeatedModules
from ._schedules import Schedules


@dataclass(frozen=True, eq=False)
class InvariantMove:
    """A move to the GPU that is the same at every step."""

    call: cst.Call
    loop: cst.CSTNode  #: the loop; of an attribute the loop or the function that runs at every step
    is_module: bool
    statement: (
        cst.Expr | cst.Assign | None
    )  #: the statement that only moves a module, which may be in front of the loop
    is_indexed: bool = False  #: whether it moves numbers of the tensor that an index selects
    is_plain: bool = False  #: whether nothing that the loop does may move the module or replace its parts


class InvariantMoves:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._kept = KeptOnHost(module)
        self._modules = RepeatedModules(module, self._passes)

    def all(self) -> Iterator[InvariantMove]:
        """The moves in the file: by methods in order, then those by functions of the program."""
        to_device = {move.call: move for move in self._module.fact(Placement).moves}
        found: set[cst.CSTNode] = set()
        for call in self._module.own_methods("to", "cuda", "type_as", "type"):
            move, moved = to_device.get(call.node), self._kept.whole(call.receiver)
            if move is None and call.method == "to" and self._module.fact(IndirectMoves).goes_to_tensor(call.node):
                move = Move(call.node, call.receiver, call.node.args[0], None)
            if self._module.fact(Purposes).is_self_test(call.node):
                continue
            if moved in found or (move is not None and move.device is Device.CPU):
                continue  # `self.table.type_as(x).to(x.device)` moves it twice
            invariant = self._moved(move) if move is not None else None
            invariant = invariant or self._of_kept(call.node, moved, move)
            if invariant is not None:
                found.add(moved)
                yield invariant
        for move in filter(self._is_own, self._module.fact(IndirectMoves).by_functions):
            invariant = self._of_kept(move.call, self._kept.whole(move.source), move)
            if invariant is not None:
                yield invariant

    def _is_own(self, move: Move) -> bool:
        return self._module.is_own(move.call) and not self._module.fact(Purposes).is_self_test(move.call)

    def _moved(self, move: Move) -> InvariantMove | None:
        """A move in a loop, or of a module in a function that a loop or a network runs again."""
        found = self._in_loop(move)
        function = self._module.function_of(move.call)
        if found is not None or function is None or self._kept.is_conditional(move.call, function):
            return found
        again = self._modules.repeating(move) if dotted_name(move.source) is not None else None
        return InvariantMove(move.call, again, True, None) if again is not None else None

    def _of_kept(self, call: cst.Call, moved: cst.BaseExpression, move: Move | None) -> InvariantMove | None:
        """A move of a tensor that stays on the host, to a device or to where another tensor is."""
        repeated = self._kept.repeating(call, moved)
        if repeated is None or (move is None and not self._module.fact(IndirectMoves).goes_to_tensor(call)):
            return None
        is_indexed = self._module.fact(Schedules).indexed(moved) is not None
        return InvariantMove(call, repeated.step, False, None, is_indexed)

    def _in_loop(self, move: Move) -> InvariantMove | None:
        """A move in a loop of what is the same at every iteration."""
        moved = self._kept.whole(move.source, from_start=True)
        if dotted_name(moved) is None or not self._module.fact(Loops).around(move.call):
            return None
        return self._invariant(replace(move, source=moved))

    def _invariant(self, move: Move) -> InvariantMove | None:
        loop = self._module.fact(Loops).around(move.call)[0].node
        if not self._is_step(move, loop) or not self._is_same_device(move, loop) or self._moves_again(move, loop):
            return None
        value = self._module.value(move.source)
        if value.kind in (Kind.MODULE, Kind.LOSS) and (value.sure or self._is_called(move, loop)):
            if not self._is_one_module(move, loop) or self._grows(move.source, loop):
                return None
            statement = self._statement(move, loop)
            is_plain = statement is not None and self._module.fact(ModuleUses).are_plain(move, loop)
            return InvariantMove(move.call, loop, True, statement, is_plain=is_plain)
        if value.kind is not Kind.TENSOR or not value.sure or value.role is Role.BATCH:
            return None
        if not self._module.fact(Invariance).is_invariant(move.source, loop) or not self._module.fact(
            HostTensors
        ).is_on_host(move.source):
            return None
        is_written = any(self._tree.within(place, loop) for place in self._kept.writes_to(move.source))
        return None if is_written else InvariantMove(move.call, loop, False, None)

    def _is_step(self, move: Move, loop: cst.For | cst.While) -> bool:
        """Whether a loop makes steps, or its iterations run what they move, and always make the move."""
        place = self._module.fact(StepPlaces).of(move.call, self._passes)
        if place is not None and not place.calls and place.step is loop:
            return True
        is_epoch = self._module.fact(Loops).of(loop).kind is LoopKind.EPOCH
        return not is_epoch and self._modules.runs(move, loop) and self._passes(move.call, loop)

    def _passes(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` runs at every iteration of ``outer``, or of those that a condition on all of it selects."""
        work = outer.body if isinstance(outer, (cst.For, cst.While)) else None
        only = work.body[0] if isinstance(work, cst.IndentedBlock) and len(work.body) == 1 else None
        selected = only.body if isinstance(only, cst.If) and only.orelse is None else outer
        return self._module.fact(Iterations).at_every_iteration(node, selected)

    def _is_called(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the function of a loop runs what it moves, as only modules are, or switches the mode of that."""
        name = dotted_name(move.source)
        names = {name, *(f"{name}.{method}" for method in (*RUNNING, "train", "eval"))}
        function = self._module.function_of(loop)
        calls = self._tree.calls_in(function or loop)
        return any(call.func is move.call or dotted_name(call.func) in names for call in calls)

    def _is_same_device(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the device is the same at every iteration; so is that of a batch: ``x.device``, or ``.to(x)``."""
        if move.target is None:
            return not move.call.args
        target = move.target.value
        if isinstance(target, cst.Attribute) and target.attr.value == "device":
            return True
        if self._module.fact(IndirectMoves).goes_to_tensor(move.call):
            return True
        return self._module.fact(Invariance).is_invariant(target, loop)

    def _moves_again(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the loop moves the same object elsewhere, as to the CPU between two uses, or loads it.

        So may a function that it calls, or another name of the object.
        """
        text, own = dotted_name(move.source), self._tree.statement_of(move.call)
        for target, _ in self._module.fact(Moves).on(move.source, loop):
            if not self._tree.within(target, own) and not self._tree.exclusive(target, move.call):
                return True
        for call in self._tree.calls_in(loop):
            func = call.func
            if call is move.call or not isinstance(func, cst.Attribute):
                continue
            if func.attr.value in ("cpu", "to", "cuda", "to_empty") and dotted_name(func.value) == text:
                if not self._tree.exclusive(call, move.call):
                    return True
            if func.attr.value in LOADING:
                return True
        return False

    def _grows(self, module: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        """Whether an iteration adds layers to a network, by a method that creates some: ``net.add_head(classes)``."""
        text = dotted_name(module)
        values = self._module.values
        methods = [
            definition
            for call in self._tree.calls_in(loop)
            if isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == text
            for definition in self._module.definitions.called(call, values)
        ]
        return any(
            made in self._module.value(made).origins and self._module.value(made).kind is Kind.MODULE
            for definition in methods
            for made in self._tree.calls_in(definition)
        )

    def _is_one_module(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the loop binds no other module to the name."""
        statement = self._tree.statement_of(move.call)
        operand = move.source
        if isinstance(operand, cst.Name):
            scope = self._module.names.home_of(operand)
            bound = scope.bindings.get(operand.value, ()) if scope is not None else ()
            return all(
                item.node is statement
                or not self._tree.within(item.node, loop)
                or self._tree.exclusive(item.node, statement)
                for item in bound
            )
        text = dotted_name(operand)
        root = base_of(operand, {cst.Attribute})
        if isinstance(root, cst.Name) and self._module.fact(Invariance).is_bound_in(root, loop):
            return False
        return not any(
            self._tree.within(place, loop) and place is not statement and dotted_name(target) == text
            for target, _, place in self._tree.stores
        )

    def _statement(self, move: Move, loop: cst.For | cst.While) -> cst.Expr | cst.Assign | None:
        """The statement, directly in the loop, before which the iteration does not use the module."""
        statement = self._tree.parent(move.call)
        if isinstance(statement, cst.Assign):
            targets = [dotted_name(item.target) for item in statement.targets]
            if targets != [dotted_name(move.source)]:
                return None
        elif not isinstance(statement, cst.Expr):
            return None
        row = self._tree.parent(statement)
        if not isinstance(row, cst.SimpleStatementLine) or self._tree.parent(row) is not loop.body:
            return None
        if not self._target_is_plain(move, loop):
            return None
        first = self._tree.index(statement)
        name = last_part(dotted_name(move.source) or "")
        uses = [*self._tree.names.get(name, ()), *self._tree.attributes_named(name)]
        before = (self._tree.within(use, loop) and self._tree.index(use) < first for use in uses)
        return None if any(before) else statement

    def _target_is_plain(self, move: Move, loop: cst.CSTNode) -> bool:
        return move.target is None or self._module.fact(Invariance).is_invariant(move.target.value, loop)
