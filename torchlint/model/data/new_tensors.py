"""Tensors that were just created on the host, of sizes and numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from torchlint.model.data.creation import (
    COMPUTING,
    COPYING,
    DRAWING,
    DRAWN,
    EXACT,
    FACTORIES,
    FILLING,
    JOINING,
    LEGACY,
    SAME_EVERYWHERE,
)
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.scopes import Binding

#: Functions whose result has some of the values that they are given.
_PARTS = frozenset({"torch.triu", "torch.tril"})
#: Options of a factory for a tensor elsewhere, or one that must be on the host.
_OPTIONS = frozenset({"device", "generator", "out", "pin_memory", "requires_grad"})
#: Methods that give a number of a tensor.
_COUNTING = frozenset({"size", "dim", "numel", "item"})


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


class NewTensors(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    def of(self, node: cst.BaseExpression) -> NewTensor | None:
        """The tensor that ``node`` creates on the host from no other tensor; None if it is or may be something else.

        Casts, changes of shape, fills and arithmetic with numbers may be in between: ``torch.ones(n).long() * 3``.
        So may a name without another use. Left out are tensors with options of their own: a device, a
        generator, pinned memory, gradients. ``torch.FloatTensor(rows, columns).zero_()`` is one as well: of sizes, and
        filled at once; and ``torch.zeros(n, classes).scatter_(1, labels, 1)``, labels of which one is set. Of several
        that are joined, as by ``torch.cat``, the first represents all.
        """
        return None if self._is_traced(node) else self._new(node)

    def _new(self, node: cst.BaseExpression, *, held: bool = False, filled: bool = False) -> NewTensor | None:
        if isinstance(node, cst.Name):
            value = self._held_by(node)
            if value is None and (held or self._is_beside(node)):
                value = self._only_use_of(node)
            made = None if value is None else self._new(value, held=True, filled=filled)
            return None if made is None else replace(made, named=True)
        if isinstance(node, cst.Subscript):
            return self._new(node.value, held=held, filled=filled) if _selects(node) else None
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return self._computed([node.expression], held)
        if isinstance(node, cst.BinaryOperation):
            return self._computed([node.left, node.right], held)
        if not isinstance(node, cst.Call):
            return None
        name = self._module.name_of(node.func) or ""
        if name == "torch.autograd.Variable":
            given = node.args[0].value if node.args and not node.args[0].star else None
            plain = all(map(_is_volatile, node.args[1:]))
            return self._new(given, held=held, filled=filled) if given is not None and plain else None
        if name.startswith("torch."):
            return self._of_function(node, name, held, filled)
        return self._of_method(node, node.func, held, filled) if isinstance(node.func, cst.Attribute) else None

    def _of_function(self, node: cst.Call, name: str, held: bool, filled: bool) -> NewTensor | None:
        call, last = self._module.call(node, name), name.removeprefix("torch.")
        if last in LEGACY and filled:
            return NewTensor(call, False, False, legacy=True) if self._is_sized(call) else None
        if last in FACTORIES:
            return self._made_by(call, last)
        given = [item.value for item in node.args if item.keyword is None]
        if not given or any(item.star for item in node.args):
            return None
        if name in _PARTS:
            made = self._new(given[0], held=held)
            return None if made is None else replace(made, expanded=False)
        if last in JOINING:
            return self._computed(_items(given), held)
        return self._computed(given, held) if last in COMPUTING and len(given) == len(node.args) else None

    def _of_method(self, node: cst.Call, func: cst.Attribute, held: bool, filled: bool) -> NewTensor | None:
        method = func.attr.value
        if method in COMPUTING:
            return self._computed([func.value, *(item.value for item in node.args)], held)
        hosted = self._needs_host(node, method)
        if method not in SAME_EVERYWHERE and method not in DRAWING and not hosted and not self._casts(node, method):
            return None
        made = self._new(func.value, held=held, filled=filled or method in FILLING)
        if made is None:
            return None
        drawn = made.drawn or method in DRAWING
        expanded = made.expanded or method in ("expand", "expand_as")
        return replace(
            made,
            exact=made.exact and not drawn,
            drawn=drawn,
            hosted=made.hosted or hosted,
            expanded=expanded and method not in COPYING,
        )

    def _computed(self, operands: Iterable[cst.BaseExpression], held: bool) -> NewTensor | None:
        """What an operation on each element makes of tensors and numbers, if all tensors are new."""
        others = [item for item in operands if not self._is_number(item)]
        tensors = [item for item in others if not self._is_setting(item)]
        held = held or len(tensors) > 1
        new = [made for item in tensors if (made := self._new(item, held=held)) is not None]
        if not new or len(new) < len(tensors):
            return None
        return replace(
            new[0],
            exact=False,
            drawn=any(item.drawn for item in new),
            named=any(item.named for item in new),
            hosted=len(others) > 1 or new[0].hosted,
            expanded=False,
        )

    def _needs_host(self, call: cst.Call, method: str) -> bool:
        """Whether a method writes values of the host, or casts to a type of the host: ``x.type(torch.ByteTensor)``."""
        if method != "type" or not call.args:
            return method == "scatter_"
        return (self._module.name_of(call.args[0].value) or "").removeprefix("torch.") in LEGACY

    def _casts(self, call: cst.Call, method: str) -> bool:
        """Whether a method only casts: ``x.to(torch.long)``, ``x.type(torch.float32)``."""
        if method not in ("to", "type") or len(call.args) != 1:
            return False
        value = call.args[0].value
        named = isinstance(value, cst.Attribute) and value.attr.value == "dtype"
        return named or self._module.value(value).kind is Kind.DTYPE

    # -- names

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
        if not self._is_beside(node) or self._is_kept(tree.parent(made) or made, node.value):
            return None
        begin, end = tree.index(made), tree.index(move)
        between = [use for use in tree.names.get(node.value, ()) if begin < tree.index(use) < end]
        return reached[0].value if all(tree.within(use, made) for use in between) else None

    def _only_use_of(self, node: cst.Name) -> cst.BaseExpression | None:
        """What a name was given that is used at ``node`` alone: of ``zeros = torch.zeros(n)``."""
        reached = self._module.values.reaching.of(node)
        if len(reached) != 1 or reached[0].kind != "assign" or (reached[0].path and not self._is_grid(reached[0])):
            return None
        home = self._module.names.home_of(node)
        others = [
            use
            for use in self._module.tree.names.get(node.value, ())
            if use is not node and self._module.names.home_of(use) is home
        ]
        return reached[0].value if len(others) == 1 and self._module.tree.within(others[0], reached[0].node) else None

    def _is_grid(self, binding: Binding) -> bool:
        """Whether a name is one of the tensors of ``rows, columns = torch.meshgrid(...)``."""
        value = binding.value
        return isinstance(value, cst.Call) and self._module.name_of(value.func) == "torch.meshgrid"

    def _is_beside(self, node: cst.Name) -> bool:
        """Whether what a name gets is made in the block that uses it, perhaps only under a condition there."""
        tree = self._module.tree
        block = tree.parent(self._unconditional(tree.statement_of(node)))
        made = [tree.statement_of(item.node) for item in self._module.values.reaching.of(node)]
        return all(tree.parent(tree.parent(item) or item) is block for item in made)

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

    # -- numbers

    def _is_number(self, node: cst.BaseExpression, depth: int = 6) -> bool:
        """Whether ``node`` is a number: also a variable of a loop that is not known to be something else."""
        value = self._module.value(node)
        if value or depth <= 0:
            return value.kind is Kind.NUMBER and (value.sure or isinstance(node, cst.Name))
        if isinstance(node, cst.UnaryOperation):
            return self._is_number(node.expression, depth - 1)
        if isinstance(node, cst.BinaryOperation):
            return self._is_number(node.left, depth - 1) and self._is_number(node.right, depth - 1)
        if isinstance(node, cst.Subscript):
            return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _COUNTING:
                return bool(node.args) or node.func.attr.value != "size"
            return (self._module.name_of(node.func) or "").startswith(("math.", "builtins.len"))
        if not isinstance(node, cst.Name):
            return False
        reached = self._module.values.reaching.of(node)
        if not reached or self._is_size(node):
            return bool(reached)
        return all(
            item.kind == "for"
            or _is_of_shape(item)
            or (isinstance(item.node, cst.Param) and _is_promised_number(item.node))
            or (
                item.kind == "assign"
                and not item.path
                and item.value is not None
                and self._is_number(item.value, depth - 1)
            )
            for item in reached
        )

    def _is_setting(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is an attribute of ``self`` that is only set to parameters and to settings, none known."""
        stored = self._module.values.stored(dotted_name(node) or "") if isinstance(node, cst.Attribute) else []
        return bool(stored) and all(
            value is not None and not self._module.value(value) and self._is_given(value) for value in stored
        )

    def _is_given(self, value: cst.BaseExpression) -> bool:
        """``width``, a parameter, or ``options["width"]``."""
        if isinstance(value, cst.Subscript) and isinstance(value.slice[0].slice, cst.Index):
            return isinstance(value.slice[0].slice.value, cst.SimpleString)
        return isinstance(value, cst.Name) and all(
            item.kind == "param" for item in self._module.values.reaching.of(value)
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

    # -- factories

    def _is_traced(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in an argument of ``torch.jit.trace``, which records the copy on purpose."""
        return any(
            isinstance(above, cst.Call) and (self._module.name_of(above.func) or "").startswith("torch.jit.")
            for above in self._module.tree.ancestors(node)
        )

    def _made_by(self, call: Call, last: str) -> NewTensor | None:
        if any(item.star == "**" or (item.keyword and item.keyword.value in _OPTIONS) for item in call.node.args):
            return None
        drawn = last in DRAWN
        return NewTensor(call, last in EXACT or (not drawn and self._counts(call)), drawn)

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


def _items(given: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
    """The tensors in the arguments of ``torch.cat([x, y], 1)`` and ``torch.meshgrid(x, y)``."""
    return [
        item.value if isinstance(item, cst.Element) else item
        for node in given
        for item in (node.elements if isinstance(node, (cst.List, cst.Tuple)) else (node,))
        if isinstance(item, (cst.Element, cst.BaseExpression))
    ]


def _selects(node: cst.Subscript) -> bool:
    """Whether an index gives a part or another shape, by numbers alone: ``x[None, :]``, ``x[:count]``."""
    return all(not isinstance(item.slice, cst.Index) or _is_place(item.slice.value) for item in node.slice)


def _is_place(node: cst.BaseExpression) -> bool:
    node = node.expression if isinstance(node, cst.UnaryOperation) else node
    return isinstance(node, (cst.Integer, cst.Ellipsis)) or (isinstance(node, cst.Name) and node.value == "None")


def _rebinds(statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement is ``name = ...``."""
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    return isinstance(target, cst.Name) and target.value == name


def _is_of_shape(binding: Binding) -> bool:
    """Whether a name is one of the sizes of a tensor: ``rows, columns = x.shape``."""
    value = binding.value.func if isinstance(binding.value, cst.Call) else binding.value
    return bool(binding.path) and isinstance(value, cst.Attribute) and value.attr.value in ("shape", "size")


def _is_promised_number(param: cst.Param) -> bool:
    """Whether the annotation of a parameter is ``int`` or ``float``."""
    written = param.annotation.annotation if param.annotation is not None else None
    return isinstance(written, cst.Name) and written.value in ("int", "float")


def _is_volatile(argument: cst.Arg) -> bool:
    """Whether an argument of ``Variable`` no longer means anything: ``volatile=not self.training``."""
    return argument.keyword is not None and argument.keyword.value == "volatile"
