"""Tensors that were just created on the host, of sizes and numbers alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import PARAMETER
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.tensors.creation import (
    COMPUTING,
    COPYING,
    DRAWING,
    FILLING,
    JOINING,
    LEGACY,
    LIKE,
    OF_EINOPS,
    SAME_EVERYWHERE,
    WHOLE,
)
from torchlint.model.tensors.generated_lists import GeneratedLists
from torchlint.model.tensors.given_names import GivenNames
from torchlint.model.tensors.host_factories import (
    HostFactories,
    NewTensor,
    has_device,
    joined_items,
    means_nothing,
    operands,
    selects,
)
from torchlint.model.tensors.numbers import Numbers
from torchlint.model.tensors.returned_tensors import ReturnedTensors

#: Methods that may move a tensor to another device.
_MOVING = frozenset({"to", "cuda", "type", "type_as"})
#: Functions that give another form of a tensor, and get no second one.
_FORMS = (WHOLE - {"repeat_interleave"}) | {"nn.functional.pad"}
#: Attributes and methods that give the size of a tensor, which is the same on any device.
_SIZES = frozenset({"shape", "size", "numel", "dim", "ndim"})
#: Functions of torch that give the data of an array, functions that give another form of an array or join several, and
#: methods of arrays that give another form of one.
_OF_ARRAYS = LEGACY | {"from_numpy", "tensor", "as_tensor"}
_ARRAY_FORMS = frozenset({f"numpy.{name}" for name in ("triu", "tril", "repeat", "tile", "expand_dims", "reshape")})
_JOINING_ARRAYS = frozenset(
    {f"numpy.{name}" for name in ("array", "concatenate", "hstack", "meshgrid", "stack", "vstack")}
    | {"builtins.list", "itertools.product"}
)
_ARRAY_METHODS = frozenset({"astype", "reshape", "transpose", "copy", "flatten", "ravel", "repeat"})


class NewTensors(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._numbers = forest.fact(Numbers)
        self._lists = forest.fact(GeneratedLists)
        self._factories = forest.fact(HostFactories)
        self._names = forest.fact(GivenNames)

    def of(self, node: cst.BaseExpression) -> NewTensor | None:
        """The tensor that ``node`` creates on the host from no other tensor; None if it is or may be something else.

        Casts, changes of shape, fills and arithmetic with numbers may be in between: ``torch.ones(n).long() * 3``.
        So may a name without another use. Left out are tensors with options of their own: a device, a
        generator, pinned memory, gradients. ``torch.FloatTensor(rows, columns).zero_()`` is one as well: of sizes, and
        filled at once; and ``torch.zeros(n, classes).scatter_(1, labels, 1)``, labels of which one is set. Of several
        that are joined, as by ``torch.cat``, the first represents all. Arrays of sizes alone count as well, such as
        ``torch.from_numpy(np.ones(n))``, and so does what a function of the program makes of sizes and returns.
        """
        return None if self._is_traced(node) else self._new(node)

    def _new(self, node: cst.BaseExpression, *, held: bool = False, filled: bool = False) -> NewTensor | None:
        if isinstance(node, cst.Name):
            values = [self._given(node, held=held)] if self._forest.values.reaching.only(node) else self._chosen(node)
            new = (self._new(value, held=True, filled=filled) for value in values if value is not None)
            made = next(filter(None, new), None)
            return None if made is None else replace(made, named=True)
        if isinstance(node, cst.Subscript):
            return self._new(node.value, held=held, filled=filled) if selects(node) else self._rows_of_identity(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.BitInvert)):
            return self._computed([node.expression], held)
        if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
            return self._computed(operands(node), held)
        if isinstance(node, cst.IfExp):
            return self._computed([node.body, node.orelse], held)
        each = self._lists.joined(node)
        if each is not None:  # `torch.cat([torch.full((2,), i) for i in range(n)])`
            made = self._new(each, held=held)
            return None if made is None else replace(made, hosted=True)
        if not isinstance(node, cst.Call):
            return None
        name = self._forest.name_of(node.func) or ""
        if name == "torch.autograd.Variable":
            given = node.args[0].value if node.args and not node.args[0].star else None
            plain = all(map(means_nothing, node.args[1:]))
            return self._new(given, held=held, filled=filled) if given is not None and plain else None
        if name in PARAMETER:
            made = self._new(node.args[0].value, held=held) if node.args and not node.args[0].star else None
            return None if made is None else replace(made, hosted=True)  # the copy is not a leaf
        if name.startswith("torch."):
            return self._of_function(node, name, held, filled)
        if name in OF_EINOPS and node.args and not node.args[0].star:
            return self._new(node.args[0].value, held=held)
        if name.startswith("numpy."):
            return None
        made = self._of_method(node, node.func, held, filled) if isinstance(node.func, cst.Attribute) else None
        returned = self._forest.fact(ReturnedTensors)
        return made or returned.drawn(node) or returned.of(node)

    def _of_function(self, node: cst.Call, name: str, held: bool, filled: bool) -> NewTensor | None:
        created = self._factories.of(node, name, filled=filled)
        given = [item.value for item in node.args if item.keyword is None]
        if created is not None or not given or any(item.star for item in node.args):
            return created
        last = name.removeprefix("torch.")
        if last in _OF_ARRAYS:
            if len(given) != 1 or has_device(node):
                return None
            if self._lists.is_repeated(given[0]):
                return self._factories.of_repeated(node, name)
            return self._of_array(given[0]) or (self._new(given[0], held=held) if last in LEGACY else None)
        is_like = last in LIKE and all(item.keyword is None or item.keyword.value == "dtype" for item in node.args)
        if last in _FORMS or is_like:
            made = self._new(given[0], held=held)
            if made is None:
                return None
            drawn, expanded = made.drawn or last.startswith("rand"), made.expanded and last not in COPYING
            return replace(made, exact=made.exact and not drawn, drawn=drawn, expanded=expanded)
        if last in JOINING:
            return self._computed(joined_items(given), held)
        return self._computed(given, held) if last in COMPUTING and len(given) == len(node.args) else None

    def _of_method(self, node: cst.Call, func: cst.Attribute, held: bool, filled: bool) -> NewTensor | None:
        method = func.attr.value
        if method in COMPUTING:
            return self._computed([func.value, *(item.value for item in node.args)], held)
        hosted = self._needs_host(node, method)
        if (
            method not in SAME_EVERYWHERE
            and method not in DRAWING
            and not hosted
            and not self._factories.casts(node, method)
        ):
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
        others = [item for item in operands if not self._numbers.is_number(item)]
        tensors = [item for item in others if not self._numbers.is_setting(item) and not self._is_constant(item)]
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

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a tensor of written numbers, perhaps by a name: of ``first = torch.tensor([0.0])``."""
        given = self._given(node, held=True) if isinstance(node, cst.Name) else node
        return given is not None and self._factories.is_constant(given)

    def _rows_of_identity(self, node: cst.Subscript) -> NewTensor | None:
        """``torch.eye(classes)[labels]``: rows in which one element is set."""
        call = node.value
        if not isinstance(call, cst.Call) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
            return None
        made = self._factories.of(call, "torch.eye") if self._forest.name_of(call.func) == "torch.eye" else None
        return None if made is None else replace(made, hosted=True)

    def _of_array(self, node: cst.BaseExpression) -> NewTensor | None:
        """What an array of sizes and numbers alone is created by: ``np.triu(np.ones(shape), k=1)``."""
        if isinstance(node, cst.Name):
            value = self._given(node)
            made = self._of_array(value) if value is not None else None
            return None if made is None else replace(made, named=True)
        if isinstance(node, cst.Subscript):
            return self._of_array(node.value) if selects(node) else None
        if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
            arrays = [item for item in operands(node) if not self._numbers.is_number(item)]
            return self._of_array(arrays[0]) if len(arrays) == 1 else None
        if isinstance(node, cst.List) and len(node.elements) == 1:  # `torch.LongTensor([[range(n)]])`
            only = node.elements[0].value
            is_range = isinstance(only, cst.Call) and self._forest.name_of(only.func) == "builtins.range"
            return self._of_array(only) if is_range or isinstance(only, cst.List) else None
        if isinstance(node, cst.ListComp):  # `np.concatenate([... for i in range(count)])`
            counted = self._lists.range_of(node) or self._lists.joined(node)
            return None if counted is None else self._of_array(counted)
        if not isinstance(node, cst.Call):
            return None
        name = self._forest.name_of(node.func) or ""
        if name in _JOINING_ARRAYS and len(node.args) > 0 and self._lists.is_repeated(node.args[0].value):
            return self._factories.of_repeated(node, name)
        if name in _ARRAY_FORMS and node.args:
            return self._of_array(node.args[0].value)
        if name in _JOINING_ARRAYS:
            return self._of_arrays(joined_items([item.value for item in node.args if item.keyword is None]))
        if name:
            return self._factories.of_array(node, name)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _ARRAY_METHODS:
            return self._of_array(node.func.value)
        return self._forest.fact(ReturnedTensors).of(node)

    def _of_arrays(self, nodes: list[cst.BaseExpression]) -> NewTensor | None:
        """What the first of some arrays is created by, if all are of sizes and numbers alone."""
        made = [self._of_array(item) for item in nodes]
        return made[0] if made and all(made) else None

    def _needs_host(self, call: cst.Call, method: str) -> bool:
        """Whether a method writes values of the host, or casts to a type of the host: ``x.type(torch.ByteTensor)``.

        Or to a type that is not known: ``x.type(dtype)``, ``x.type(other.type())``. Or whether it repeats elements as
        often as what may be a tensor of the host says.
        """
        if method == "repeat_interleave":
            return not all(self._numbers.is_number(item.value) for item in call.args)
        if method != "type" or len(call.args) != 1:
            return method == "scatter_"
        given = call.args[0].value
        if isinstance(given, cst.Call):
            return isinstance(given.func, cst.Attribute) and given.func.attr.value == "type" and not given.args
        name = (self._forest.name_of(given) or "").removeprefix("torch.")
        return name in LEGACY or (isinstance(given, cst.Name) and not self._forest.value(given))

    # -- names

    def _given(self, node: cst.Name, *, held: bool = False) -> cst.BaseExpression | None:
        """What a name was given, if that is known and only moved, or used at ``node`` alone."""
        given = self._forest.values.reaching.only(node)
        if given is None or given.kind is not BindingKind.ASSIGN:
            return None
        value = self._held_by(node, given)
        if value is None and (held or self._names.is_beside(node)):
            value = self._only_use_of(node, given)
        return value

    def _chosen(self, node: cst.Name) -> list[cst.BaseExpression | None]:
        """What a branch gives a name that is used at ``node`` alone, in place of a parameter or in the other branch.

        ``if noise is None: noise = torch.randn(size)``, then ``noise = noise.to(x.device)``.
        """
        made = [item for item in self._forest.values.reaching.of(node) if item.kind is BindingKind.ASSIGN]
        if not self._names.is_behind_branches(node):
            return []
        return [self._only_use_of(node, item) for item in made]

    def _held_by(self, node: cst.Name, given: Binding) -> cst.BaseExpression | None:
        """What a name was given for no other purpose than to move it, in the same block or under a condition.

        ``places = torch.arange(n)``, then ``places = places.to(device)``: the device is all that is new.
        """
        tree = self._forest.tree
        move = tree.statement_of(node)
        if not self._rebinds(move, node):
            return None
        made = tree.statement_of(given.node)
        if not self._names.is_beside(node) or self._names.is_kept(tree.parent(made) or made, node.value):
            return None
        between = self._uses(node.value, tree.index(made) + 1, tree.index(move))
        if all(tree.within(use, made) or tree.exclusive(use, move) or self._only_fills(use) for use in between):
            return unpacked(given.value, given.path)
        return None

    def _uses(self, name: str, start: int, end: int) -> list[cst.Name]:
        """The uses of a name between two places of the tree."""
        uses, index = self._forest.tree.names.get(name, []), self._forest.tree.index
        return uses[bisect_left(uses, start, key=index) : bisect_left(uses, end, key=index)]

    def _rebinds(self, statement: cst.CSTNode, node: cst.Name) -> bool:
        """Whether a statement only gives a name what it moves: ``x = x.cuda()``, ``x, y = x.cuda(), y.cuda()``."""
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return False
        target: cst.BaseExpression = statement.targets[0].target
        value = statement.value
        if (
            isinstance(target, cst.Tuple)
            and isinstance(value, cst.Tuple)
            and len(target.elements) == len(value.elements)
        ):
            pairs = zip(target.elements, value.elements, strict=True)
            uses = self._uses(node.value, self._forest.tree.index(value), self._forest.tree.last(value) + 1)
            using = [one.value for one, given in pairs if any(self._forest.tree.within(use, given) for use in uses)]
            target = using[0] if len(using) == 1 else target
        return isinstance(target, cst.Name) and target.value == node.value

    def _only_fills(self, use: cst.Name) -> bool:
        """Whether a use of a tensor only gives elements a value, or asks for its size: ``labels.fill_(1)``."""
        member = self._forest.tree.parent(use)
        if isinstance(member, cst.Subscript):
            statement = self._forest.tree.statement_of(use)
            return isinstance(statement, (cst.Assign, cst.AugAssign)) and self._fills_items(statement, use)
        if not isinstance(member, cst.Attribute) or member.attr.value in _SIZES:
            return isinstance(member, cst.Attribute)
        call = self._forest.tree.parent(member)
        if not isinstance(call, cst.Call) or call.func is not member:
            return False
        return member.attr.value in FILLING and isinstance(self._forest.tree.parent(call), cst.Expr)

    def _fills_items(self, statement: cst.Assign | cst.AugAssign, name: cst.Name) -> bool:
        """``ids[..., 1] = ids[..., 1] + torch.arange(n)``: whether items get a new tensor, or it is added to them.

        Each of them once: not in a loop that the tensor is made before.
        """
        target = statement.target if isinstance(statement, cst.AugAssign) else statement.targets[0].target
        if not isinstance(target, cst.Subscript) or not self._is_of(target, name) or not selects(target):
            return False
        if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
            return False
        value = statement.value
        parts = operands(value) if isinstance(value, (cst.BinaryOperation, cst.Comparison)) else [value]
        others = [part for part in parts if not self._is_of(part, name)]
        tensors = [part for part in others if not self._numbers.is_number(part)]
        return bool(tensors) and self._names.is_beside(name) and all(self._new(part) for part in tensors)

    def _is_of(self, node: cst.BaseExpression, name: cst.Name) -> bool:
        """Whether ``node`` is an item of a variable."""
        return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name) and node.value.value == name.value

    def _only_use_of(self, node: cst.Name, given: Binding) -> cst.BaseExpression | None:
        """What a name was given that is used at ``node`` alone: of ``zeros = torch.zeros(n)``.

        The tensor that a call moves may use it several times: ``torch.cat((2 * rows, 2 * rows + 1)).cuda()``.
        """
        home = self._forest.names.home_of(node)
        uses = self._forest.values.reaching.uses_of(given, home) if home is not None else ()
        if any(self._is_another_use(use, node, given) for use in uses):
            return None
        return given.value if self._is_grid(given) else unpacked(given.value, given.path)

    def _is_another_use(self, use: cst.Name, node: cst.Name, given: Binding) -> bool:
        """Whether ``use``, of the value that a name is given, is before or behind a move of the one of ``node``."""
        tree = self._forest.tree
        if use is node or tree.within(use, given.node) or tree.is_target(use):
            return False
        move = tree.statement_of(node)
        if isinstance(move, cst.Return) and tree.index(use) > tree.last(move):
            return False  # what follows does not run after it
        if tree.index(use) < tree.index(move) and self._only_fills(use):
            return False
        if self._names.are_copied_alike(use, node):
            return False
        return not any(tree.within(use, moved) for moved in self._moved_with(node))

    def _moved_with(self, node: cst.Name) -> Iterator[cst.CSTNode]:
        """What the innermost call that may move it moves: of ``torch.cat((rows, columns)).cuda()``.

        And the tuple or list that it is in, all of which is joined and moved.
        """
        element = self._forest.tree.parent(node)
        joined = self._forest.tree.parent(element) if isinstance(element, cst.Element) else None
        if joined is not None:
            yield joined
        for above, child in climb(self._forest.tree, node, self._forest.tree.statement_of(node)):
            is_called = isinstance(above, cst.Call) and above.func is child
            if is_called and isinstance(child, cst.Attribute) and child.attr.value in _MOVING:
                yield child.value
                return

    def _is_grid(self, binding: Binding) -> bool:
        """Whether a name is one of the tensors of ``rows, columns = torch.meshgrid(...)``."""
        value = binding.value
        name = self._forest.name_of(value.func) if isinstance(value, cst.Call) else None
        return bool(binding.path) and name in ("torch.meshgrid", "numpy.meshgrid")

    def _is_traced(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in an argument of ``torch.jit.trace``, which records the copy on purpose."""
        return any(
            isinstance(above, cst.Call) and (self._forest.name_of(above.func) or "").startswith("torch.jit.")
            for above in self._forest.tree.ancestors(node)
        )
