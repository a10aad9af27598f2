"""Placement: which calls move a tensor to a device, and which of those tensors were only just made on the host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from torchlint.model.data.creation import (
    COMPUTING,
    COPYING,
    DRAWING,
    DRAWN,
    EXACT,
    FACTORIES,
    FILLING,
    LEGACY,
    SAME_EVERYWHERE,
)
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.scopes import Binding

#: Calls that set the device of all tensors that are made without one.
_DEFAULT_SETTERS = ("torch.set_default_device", "torch.set_default_tensor_type")
#: Names of variables that are devices, if their value is unknown.
_DEVICE_NAMES = re.compile(r"device|^dev\d*$|_dev$|gpu|cuda|(^|_)rank(_id)?$", re.IGNORECASE)

#: Functions whose result has some of the values that they are given.
_PARTS = frozenset({"torch.triu", "torch.tril"})


@dataclass(frozen=True, eq=False)
class Move:
    """A call ``x.to(device)`` or ``x.cuda()``, or another that moves ``x``."""

    call: cst.Call
    source: cst.BaseExpression  #: ``x``
    target: cst.Arg | None  #: the argument that names the device; None for ``x.cuda()``
    device: Device | None  #: None where it is out of sight

    @property
    def may_not_block(self) -> bool:
        """Whether the call passes ``non_blocking``, or may do so."""
        behind = 0
        for argument in self.call.args:
            if argument.star or (argument.keyword is not None and argument.keyword.value in ("non_blocking", "async")):
                return True
            if argument.keyword is None and argument is not self.target:
                behind += 1
                if isinstance(argument.value, cst.Name) and argument.value.value in ("True", "False"):
                    return True
        return behind > (0 if self.is_cuda else 1)

    @property
    def method(self) -> str | None:
        """The method of ``x`` that moves it; None where a function does."""
        func = self.call.func
        return func.attr.value if isinstance(func, cst.Attribute) and func.value is self.source else None

    @property
    def is_cuda(self) -> bool:
        """Whether it is ``x.cuda(...)``."""
        return self.method == "cuda"


@dataclass(frozen=True, eq=False)
class NewTensor:
    """A tensor that a factory such as ``torch.zeros`` makes on the host."""

    factory: Call
    exact: bool  #: whether it has the same values on every device
    drawn: bool  #: whether it takes random numbers
    named: bool = False  #: whether it has a name before it is moved
    legacy: bool = False  #: whether the factory is a type such as ``torch.FloatTensor``, which takes no device
    hosted: bool = False  #: whether a step before the move needs the host: ``scatter_``, ``type(torch.ByteTensor)``
    expanded: bool = False  #: whether its elements share memory until it is moved: ``torch.ones(1).expand(n)``


class Placement(ForestFact):
    """Answers for one file."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    @cached_property
    def moves(self) -> list[Move]:
        """The calls that move something to a device, in order."""
        return list(self._moves())

    def _moves(self) -> Iterator[Move]:
        for call in self._module.methods("to", "cuda"):
            assert isinstance(call.func, cst.Attribute)
            target = next((item for item in call.args if item.keyword and item.keyword.value == "device"), None)
            if target is None and call.args and call.args[0].keyword is None and not call.args[0].star:
                target = call.args[0]
            if call.func.attr.value == "cuda":
                if self._module.name_of(call.func) is None and not any(item.star for item in call.args):
                    yield Move(call, call.func.value, target, Device.CUDA)
                continue
            if target is not None and self.is_device(target.value):
                yield Move(call, call.func.value, target, device_of(target.value, self._module.values))

    def is_device(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` names a device, and is no dtype and no other tensor."""
        value = self._module.value(node)
        if value.kind in (Kind.DEVICE, Kind.STRING):
            return value.kind is Kind.DEVICE or bool(named_device(value))
        if value.kind is Kind.NUMBER:
            return isinstance(value.constant, int) or self._named_as_device(node)
        if value.kind in (Kind.TENSOR, Kind.BATCH, Kind.MODULE, Kind.DTYPE, Kind.ARRAY):
            return False
        return self._named_as_device(node)

    def _named_as_device(self, node: cst.BaseExpression) -> bool:
        name = dotted_name(node.func if isinstance(node, cst.Call) else node)
        if name is None and isinstance(node, cst.Attribute):
            name = node.attr.value  # `model(x).device`
        return name is not None and bool(_DEVICE_NAMES.search(last_part(name)))

    # -- made on the host

    @cached_property
    def is_gpu_default(self) -> bool:
        """Whether a GPU is set as the device of all tensors that are created without one."""
        return any(map(self._sets_gpu_default, self._module.calls(*_DEFAULT_SETTERS)))

    def _sets_gpu_default(self, call: Call) -> bool:
        if not call.node.args:
            return False
        given = self._module.value(call.node.args[0].value)
        if call.name == "torch.set_default_device":
            return named_device(given) is not Device.CPU
        return (given.constant if isinstance(given.constant, str) else given.name).startswith("torch.cuda.")

    def new_on_host(self, node: cst.BaseExpression) -> NewTensor | None:
        """The tensor that ``node`` creates on the host from no other tensor; None if it is or may be something else.

        Casts, changes of shape, fills and arithmetic with numbers may be in between: ``torch.ones(n).long() * 3``.
        So may a name without another use. Left out are tensors with options of their own: a device, a
        generator, pinned memory, gradients. ``torch.FloatTensor(rows, columns).zero_()`` is one as well: of sizes, and
        filled at once; and ``torch.zeros(n, classes).scatter_(1, labels, 1)``, labels of which one is set.
        """
        drawn = computed = named = filled = hosted = expanded = copied = False
        if self._is_traced(node):
            return None
        while True:
            if isinstance(node, cst.Name):
                held = self._only_use_of(node) if named else self._held_by(node)
                if held is None:
                    return None
                node, named = held, True
                continue
            operand = self._operand(node)
            if operand is not None:
                node, computed, copied = operand, True, True
                continue
            if not isinstance(node, cst.Call):
                return None
            name = self._module.name_of(node.func) or ""
            if name == "torch.autograd.Variable":
                if not node.args or node.args[0].star or not all(map(_is_volatile, node.args[1:])):
                    return None
                node = node.args[0].value
                continue
            if name in _PARTS and node.args and not node.args[0].star and node.args[0].keyword is None:
                node, copied = node.args[0].value, True
                continue
            if name.startswith("torch."):
                call = self._module.call(node, name)
                if filled and name[6:] in LEGACY:
                    return NewTensor(call, False, drawn, named, legacy=True) if self._is_sized(call) else None
                made = self._made_by(call, drawn)
                if made is None:
                    return None
                exact = made.exact and not computed
                return replace(made, exact=exact, named=named, hosted=hosted, expanded=expanded)
            if not isinstance(node.func, cst.Attribute):
                return None
            method = node.func.attr.value
            if method in COMPUTING and all(self._is_number(item.value) for item in node.args):
                computed = True
            elif method not in SAME_EVERYWHERE and method not in DRAWING and not self._needs_host(node, method):
                return None
            drawn = drawn or method in DRAWING
            hosted = hosted or self._needs_host(node, method)
            expanded = expanded or (method == "expand" and not copied)
            copied = copied or method in COPYING
            filled = filled or method in FILLING
            node = node.func.value

    def _needs_host(self, call: cst.Call, method: str) -> bool:
        """Whether a method writes values of the host, or casts to a type of the host: ``x.type(torch.ByteTensor)``."""
        if method != "type" or not call.args:
            return method == "scatter_"
        return (self._module.name_of(call.args[0].value) or "").removeprefix("torch.") in LEGACY

    def _held_by(self, node: cst.Name) -> cst.BaseExpression | None:
        """What a name was given for no other purpose than to move it, in the same block or under a condition.

        ``places = torch.arange(n)``, then ``places = places.to(device)``: the device is all that is new.
        """
        tree = self._module.tree
        reached = self._module.values.reaching.of(node)
        move = tree.statement_of(node)
        if len(reached) != 1 or reached[0].kind != "assign" or reached[0].path or not _rebinds(move, node.value):
            return None
        made = tree.statement_of(reached[0].node)
        row = tree.parent(made) or made
        if tree.parent(row) is not tree.parent(self._unconditional(move)) or self._is_kept(row, node.value):
            return None
        begin, end = tree.index(made), tree.index(move)
        between = [use for use in tree.names.get(node.value, ()) if begin < tree.index(use) < end]
        return reached[0].value if all(tree.within(use, made) for use in between) else None

    def _only_use_of(self, node: cst.Name) -> cst.BaseExpression | None:
        """What a name was given that is used at ``node`` alone: of ``zeros = torch.zeros(n)``."""
        reached = self._module.values.reaching.of(node)
        if len(reached) != 1 or reached[0].kind != "assign" or reached[0].path:
            return None
        home = self._module.names.home_of(node)
        others = [
            use
            for use in self._module.tree.names.get(node.value, ())
            if use is not node and self._module.names.home_of(use) is home
        ]
        return reached[0].value if len(others) == 1 and self._module.tree.within(others[0], reached[0].node) else None

    def _unconditional(self, statement: cst.CSTNode) -> cst.CSTNode:
        """The row of a statement, or the ``if`` without ``else`` that it is in."""
        tree = self._module.tree
        row = tree.parent(statement) or statement
        suite = row if isinstance(row, cst.SimpleStatementSuite) else tree.parent(row)
        above = tree.parent(suite) if suite is not None else None
        return above if isinstance(above, cst.If) and above.orelse is None else row

    def _is_kept(self, row: cst.CSTNode, name: str) -> bool:
        """Whether a row is run once and what it makes is kept: ``if bank is None:``."""
        return any(
            isinstance(part, cst.Comparison)
            and isinstance(part.left, cst.Name)
            and part.left.value == name
            and any(isinstance(item.operator, cst.Is) for item in part.comparisons)
            for above in self._module.tree.ancestors(row)
            if isinstance(above, cst.If)
            for part in self._module.tree.nodes_in(above.test)
        )

    def _operand(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What an elementwise expression computes from, with numbers aside: ``x`` of ``2 * x``, ``-x``, ``exp(x)``."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return node.expression
        if isinstance(node, cst.BinaryOperation):
            if self._is_number(node.right):
                return node.left
            return node.right if self._is_number(node.left) else None
        if isinstance(node, cst.Call) and node.args and not any(item.star or item.keyword for item in node.args):
            name = self._module.name_of(node.func) or ""
            if name.startswith("torch.") and name[6:] in COMPUTING:
                others = [item.value for item in node.args[1:]]
                return node.args[0].value if all(map(self._is_number, others)) else None
        return None

    def _is_number(self, node: cst.BaseExpression, depth: int = 6) -> bool:
        """Whether ``node`` is a number: also a variable of a loop that is not known to be something else."""
        value = self._module.value(node)
        if value or depth <= 0:
            return value.kind is Kind.NUMBER and (value.sure or isinstance(node, cst.Name))
        if isinstance(node, cst.UnaryOperation):
            return self._is_number(node.expression, depth - 1)
        if isinstance(node, cst.BinaryOperation):
            return self._is_number(node.left, depth - 1) and self._is_number(node.right, depth - 1)
        if isinstance(node, cst.Call):
            return (self._module.name_of(node.func) or "").startswith("math.")
        if not isinstance(node, cst.Name):
            return False
        reached = self._module.values.reaching.of(node)
        if not reached or self._is_size(node):
            return bool(reached)
        return all(
            item.kind == "for"
            or _is_of_shape(item)
            or (
                item.kind == "assign"
                and not item.path
                and item.value is not None
                and self._is_number(item.value, depth - 1)
            )
            for item in reached
        )

    def _is_size(self, node: cst.Name) -> bool:
        """Whether a factory is given the name, too, as the size of a tensor: ``torch.arange(half)``."""
        tree = self._module.tree
        bindings = self._module.names.bindings(node)
        for use in tree.names.get(node.value, ()):
            argument = tree.parent(use)
            if isinstance(argument, cst.Element):  # `torch.ones((rows, columns))`
                sizes = tree.parent(argument)
                argument = tree.parent(sizes) if sizes is not None else None
            call = tree.parent(argument) if isinstance(argument, cst.Arg) else None
            if isinstance(call, cst.Call) and self._module.names.bindings(use) == bindings:
                name = self._module.name_of(call.func) or ""
                if name.startswith("torch.") and name[6:] in FACTORIES:
                    return True
        return False

    def _is_traced(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in an argument of ``torch.jit.trace``, which records the copy on purpose."""
        return any(
            isinstance(above, cst.Call) and (self._module.name_of(above.func) or "").startswith("torch.jit.")
            for above in self._module.tree.ancestors(node)
        )

    def _made_by(self, call: Call, drawn: bool) -> NewTensor | None:
        last = call.name.removeprefix("torch.")
        if last not in FACTORIES:
            return None
        for argument in call.node.args:
            if argument.star == "**":
                return None
            if argument.keyword is not None and argument.keyword.value in (
                "device",
                "generator",
                "out",
                "pin_memory",
                "requires_grad",
            ):
                return None
        drawn = drawn or last in DRAWN
        return NewTensor(call, not drawn and (last in EXACT or self._counts(call)), drawn)

    def _is_sized(self, call: Call) -> bool:
        """Whether a type is given sizes and no data: several arguments, a number, or the shape of a tensor."""
        arguments = call.node.args
        if any(item.keyword is not None or item.star == "**" for item in arguments):
            return False
        if len(arguments) != 1:
            return len(arguments) > 1
        given = arguments[0].value
        if isinstance(given, cst.Attribute) and given.attr.value == "shape":
            return True
        if isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and given.func.attr.value == "size":
            return True
        return not arguments[0].star and self._module.value(given).kind is Kind.NUMBER

    def _counts(self, call: Call) -> bool:
        """Whether ``arange`` counts in whole steps from a whole number, which every device does alike."""
        if call.name != "torch.arange" or call.opaque:
            return False
        by_position = [item.value for item in call.node.args if item.keyword is None]
        named = {item.keyword.value: item.value for item in call.node.args if item.keyword is not None}
        given = [*by_position[:1], *by_position[2:]] if len(by_position) > 1 else []
        given += [named[name] for name in ("start", "step") if name in named]
        return all(self._is_whole(node) for node in given)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.UnaryOperation):
            node = node.expression
        return isinstance(node, cst.Integer) or isinstance(self._module.value(node).constant, int)


def _rebinds(statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement is ``name = ...``."""
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    return isinstance(target, cst.Name) and target.value == name


def _is_of_shape(binding: Binding) -> bool:
    """Whether a name is one of the sizes of a tensor: ``rows, columns = x.shape``."""
    value = binding.value.func if isinstance(binding.value, cst.Call) else binding.value
    return bool(binding.path) and isinstance(value, cst.Attribute) and value.attr.value in ("shape", "size")


def _is_volatile(argument: cst.Arg) -> bool:
    """Whether an argument of ``Variable`` no longer means anything: ``volatile=not self.training``."""
    return argument.keyword is not None and argument.keyword.value == "volatile"
