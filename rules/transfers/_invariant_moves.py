"""Modules and tensors that a step loop moves to the GPU again and again, though nothing in it changes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torchlint.model.data.creation import WHOLE
from torchlint.model.data.placement import Move, Placement
from torchlint.model.module import Module
from torchlint.model.semantics.invariance import Invariance
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.stores import Stores
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.calls import changes_in_place
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.literals import is_none
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

from ._host_tensors import HostTensors

#: Calls after which a module is to be moved.
_LOADING = frozenset({"load_state_dict", "from_pretrained", "load_checkpoint", "load_from_checkpoint"})


@dataclass(frozen=True, eq=False)
class InvariantMove:
    """A move to the GPU that is the same at every step."""

    call: cst.Call
    loop: cst.CSTNode  #: the loop; of an attribute the loop or the function that runs at every step
    is_module: bool
    statement: (
        cst.Expr | cst.Assign | None
    )  #: the statement that only moves a module, which may be in front of the loop


class InvariantMoves:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[InvariantMove]:
        """The moves in the file, in order."""
        for found in self._module.fact(Placement).moves:
            move = replace(found, source=_whole(found.source))
            if not self._module.is_own(move.call) or dotted_name(move.source) is None:
                continue
            if move.device is Device.CPU or self._module.fact(Purposes).is_self_test(move.call):
                continue
            in_loop = bool(self._module.fact(Loops).around(move.call))
            invariant = (self._invariant(move) if in_loop else None) or self._of_attribute(move)
            if invariant is not None:
                yield invariant

    def _invariant(self, move: Move) -> InvariantMove | None:
        place = self._module.fact(StepPlaces).of(move.call, self._passes)
        if place is None or place.calls or not isinstance(place.step, (cst.For, cst.While)):
            return None
        loop = self._module.fact(Loops).around(move.call)[0].node
        if loop is not place.step or not self._is_same_device(move, loop) or self._moves_again(move, loop):
            return None
        value = self._module.value(move.source)
        if value.kind in (Kind.MODULE, Kind.LOSS) and (value.sure or self._is_called(move.source, loop)):
            if not self._is_one_module(move, loop) or self._grows(move.source, loop):
                return None
            return InvariantMove(move.call, loop, True, self._statement(move, loop))
        if value.kind is not Kind.TENSOR or not value.sure or value.role is Role.BATCH:
            return None
        if not self._module.fact(Invariance).is_invariant(move.source, loop) or not self._module.fact(
            HostTensors
        ).is_on_host(move.source):
            return None
        is_written = any(self._tree.within(place, loop) for place in self._writes_to(move.source))
        return None if is_written else InvariantMove(move.call, loop, False, None)

    def _passes(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` runs at every iteration of ``outer``, or of those that a condition on all of it selects."""
        work = outer.body if isinstance(outer, (cst.For, cst.While)) else None
        only = work.body[0] if isinstance(work, cst.IndentedBlock) and len(work.body) == 1 else None
        selected = only.body if isinstance(only, cst.If) and only.orelse is None else outer
        return self._module.fact(Iterations).at_every_iteration(node, selected)

    def _is_called(self, moved: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        """Whether a loop calls what it moves, as only modules are."""
        name = dotted_name(moved)
        return any(dotted_name(call.func) == name for call in self._tree.calls_in(loop))

    def _is_same_device(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the device is the same at every iteration; so is that of a batch, ``x.device``."""
        if move.target is None:
            return not move.call.args
        target = move.target.value
        if isinstance(target, cst.Attribute) and target.attr.value == "device":
            return True
        return self._module.fact(Invariance).is_invariant(target, loop)

    def _moves_again(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether the loop moves the same object elsewhere, as to the CPU between two uses."""
        text = dotted_name(move.source)
        for call in self._tree.calls_in(loop):
            func = call.func
            if call is move.call or not isinstance(func, cst.Attribute):
                continue
            if func.attr.value in ("cpu", "to", "cuda", "to_empty") and dotted_name(func.value) == text:
                if not self._tree.exclusive(call, move.call):
                    return True
            if func.attr.value in _LOADING:
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
        root = operand
        while isinstance(root, cst.Attribute):
            root = root.value
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

    # -- tensors

    def _of_attribute(self, move: Move) -> InvariantMove | None:
        """A move of a tensor in ``self`` that a network's ``forward`` runs, or a method that each step calls."""
        text = dotted_name(move.source) or ""
        function = self._module.function_of(move.call)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or function is None or not text.startswith("self.") or text.count(".") != 1:
            return None
        if self._is_conditional(move.call, function) or self._is_kept(move.call):
            return None
        name = text[5:]
        classes = self._module.definitions.lineage(owner)
        if any(method in self._tree.scopes[item].bindings for item in classes for method in ("to", "cuda", "_apply")):
            return None
        places = [item for owner in classes for item in self._tree.scopes[owner].attributes.get(name, ())]
        if not places or not all(self._is_in_constructor(item.node) for item in places) or self._is_registered(name):
            return None
        if not all(map(self._is_in_constructor, self._writes_to(move.source))):
            return None
        repeated = self._module.fact(StepPlaces).per_batch(move.call)
        if repeated is None or not self._module.fact(HostTensors).is_on_host(move.source):
            return None
        return InvariantMove(move.call, repeated.step, False, None)

    def _is_conditional(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether a condition or a cache lets some calls of ``function`` pass by the move."""
        if any("cache" in self._module.code(item.decorator) for item in function.decorators):
            return True
        return any(
            child is not above.test and not self._is_of_settings(above.test)
            if isinstance(above, (cst.If, cst.IfExp))
            else isinstance(above, (cst.ExceptHandler, cst.Lambda))
            for above, child in climb(self._tree, call, function)
        )

    def _is_of_settings(self, test: cst.BaseExpression) -> bool:
        """Whether a condition has the same value for an object: it compares attributes that the constructor sets."""
        parts = list(self._tree.nodes_in(test))
        attributes = [node for node in parts if isinstance(node, cst.Attribute)]
        names = {node.value for node in parts if isinstance(node, cst.Name)}
        names -= {"None", "True", "False", *(node.attr.value for node in attributes)}
        stored = self._module.fact(Stores).attributes
        return (
            names == {"self"}
            and not self._tree.calls_in(test)
            and all(dotted_name(node) == f"self.{node.attr.value}" for node in attributes)
            and all(
                self._is_in_constructor(place)
                for node in attributes
                for held, _, place in stored.get(node.attr.value, ())
                if dotted_name(held) == "self"
            )
        )

    def _is_kept(self, call: cst.Call) -> bool:
        """``self.grid = self.grid.to(device)``: copied once."""
        statement = self._tree.statement_of(call)
        return isinstance(statement, cst.Assign) and any(
            isinstance(item.target, (cst.Attribute, cst.Subscript)) for item in statement.targets
        )

    def _is_in_constructor(self, node: cst.CSTNode) -> bool:
        function = self._tree.function_of(node)
        return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"

    def _writes_to(self, tensor: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Where elements of a name or attribute are set: ``table[row] = x``, ``table.add_(1)``."""
        text = dotted_name(tensor) or ""
        name = last_part(text)
        for target, _, place in self._module.fact(Stores).containers.get(name, ()):
            if dotted_name(target) == text:
                yield place
        for use in (*self._tree.names.get(name, ()), *self._tree.attributes_named(name)):
            above = self._tree.parent(use)
            if isinstance(above, cst.Attribute) and changes_in_place(above.attr.value) and dotted_name(use) == text:
                yield above

    def _is_registered(self, name: str) -> bool:
        return any(
            isinstance(item.value, cst.SimpleString) and item.value.raw_value == name
            for call in self._module.methods("register_buffer", "register_parameter")
            for item in call.args
        )


def _whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor of which ``node`` is another form or the first elements: ``x`` of ``x[None, :count].float()``."""
    while True:
        if isinstance(node, cst.Subscript) and all(map(_is_from_start, node.slice)):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in WHOLE:
            node = node.func.value
        else:
            return node


def _is_from_start(element: cst.SubscriptElement) -> bool:
    """Whether an index selects from the first element on, or adds a dimension: ``:``, ``:count``, ``None``, ``...``."""
    part = element.slice
    if isinstance(part, cst.Slice):
        return part.lower is None and part.step is None
    given = part.value if isinstance(part, cst.Index) else None
    return isinstance(given, cst.Ellipsis) or is_none(given)
