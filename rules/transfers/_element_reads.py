"""Tensors that are read element by element: ``[x.item() for x in tensor]``, ``tensor[i].item()`` in a loop over i."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.module import Module
from torchlint.model.program.stores import Stores, trailing_name
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN, Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.dotted import called_name, is_attribute_of_self
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes

from ._element_tensors import ElementTensors
from ._exits import copied
from ._host_tensors import HostTensors
from ._step_tensors import StepTensors

_TYPE_TEST = re.compile(r"\bisinstance\(|\bis_tensor\(|\bhasattr\(|\btype\(")
#: A function that is called at more places than this is a tool of many.
_MAX_CALLERS = 24
_COUNTING = ("builtins.range", "builtins.enumerate")
#: Functions that make a number of an element.
_CONVERTING = ("builtins.float", "builtins.int", "numpy.int", "numpy.float")
#: Functions that round a number before it is converted.
_ROUNDING = frozenset(
    {
        "builtins.round",
        *(
            f"{module}.{name}"
            for module in ("numpy", "math", "torch")
            for name in ("ceil", "floor", "round", "rint", "trunc")
        ),
    }
)


@dataclass(frozen=True, eq=False)
class ElementRead:
    """Reads of all elements of a tensor, one by one."""

    node: cst.BaseExpression  #: the comprehension, or the read in a loop
    loop: cst.CSTNode  #: what repeats it
    tensor: cst.BaseExpression
    element: cst.BaseExpression  #: what is read: ``x``, ``tensor[i]``, ``tensor[i][0]``
    is_whole: bool  #: whether ``node`` is the list of all elements, so that ``tensor.tolist()`` is the same
    is_line: bool  #: whether the tensor has one dimension for certain


class ElementReads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._tensors = ElementTensors(module)

    def all(self) -> Iterator[ElementRead]:
        """The reads in the file, in order."""
        for call in self._tree.calls_in(self._module.root):
            element = self._read_by(call)
            if element is None:
                continue
            found = self._repeated(call, element)
            if found is None or self._is_once(found.loop) or self._is_tested(call, found.loop) or self._is_set(found):
                continue
            has_items = not self._converts(call)
            if not (
                self._tensors.is_tensor(found.tensor, has_items=has_items)
                or self._is_row_of_step(found, call)
                or (has_items and self._is_field(found.tensor, found.loop))
            ):
                continue
            if found.is_whole or not self._is_on_host(found.tensor):
                yield found

    def _is_once(self, loop: cst.CSTNode) -> bool:
        """Whether only constructors or tests run the loop, or the top level of a file, and nothing repeats it there."""
        function = self._module.function_of(loop)
        if function is None:
            return not self._module.fact(Loops).around(loop)
        purposes = self._module.fact(Purposes)
        return purposes.is_for_constructors(function) or purposes.is_for_tests(loop)

    def _is_set(self, read: ElementRead) -> bool:
        """Whether an iteration sets elements of the tensor, so that they cannot be read before: ``best[i] = x``."""
        text = self._module.code(read.tensor)
        stores = self._module.fact(Stores).containers.get(trailing_name(read.tensor), ())
        return any(self._tree.within(at, read.loop) and self._module.code(to) == text for to, _, at in stores)

    def _is_on_host(self, tensor: cst.BaseExpression) -> bool:
        """Whether reads do not wait, so that the rest of an iteration takes longer."""
        is_seen = self._module.value(tensor).device is Device.CPU or self._module.fact(HostTensors).is_on_host(tensor)
        return is_seen or self._is_of_dataset(tensor)

    def _is_of_dataset(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in a method of a dataset that uses no GPU: it makes items on the host."""
        owner = nearest(self._tree, node, cst.ClassDef)
        made = self._module.values.instance(owner) if isinstance(owner, cst.ClassDef) else UNKNOWN
        uses_cuda = self._module.fact(Datasets).uses_cuda
        return (
            isinstance(owner, cst.ClassDef)
            and made.kind is Kind.DATASET
            and made.sure
            and not any(map(uses_cuda, self._tree.calls_in(owner)))
        )

    def _is_tested(self, call: cst.Call, loop: cst.CSTNode) -> bool:
        """Whether the read is under a test of the type: the elements may be numbers as well."""
        return any(
            isinstance(above, (cst.If, cst.IfExp))
            and child is not above.test
            and _TYPE_TEST.search(self._module.code(above.test)) is not None
            for above, child in climb(self._tree, call, loop)
        )

    def _read_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a call takes a number off."""
        if isinstance(call.func, cst.Attribute) and not call.args:
            if call.func.attr.value == "item":
                return self._item_named(copied(call.func.value))
            element = copied(call) if call.func.attr.value == "cpu" else None
            indices = indexed(element)[1] if isinstance(element, cst.Subscript) and len(element.slice) > 1 else []
            return element if indices and all(map(_is_number, indices)) else None
        if not self._converts(call) or any(given.keyword is not None or given.star for given in call.args):
            return None
        parts = [self._unrounded(given.value) for given in call.args]
        return next((part for part in parts if not isinstance(part, cst.Integer)), None)

    def _converts(self, call: cst.Call) -> bool:
        name = self._module.name_of(call.func)
        return name == "builtins.range" or (name in _CONVERTING and len(call.args) == 1)

    def _unrounded(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """What a number is computed from by rounding and with literals: ``x`` of ``np.ceil(x.cpu() / 2) - 1``."""
        while True:
            node = copied(node)
            if isinstance(node, cst.Call) and len(node.args) == 1 and self._module.name_of(node.func) in _ROUNDING:
                node = node.args[0].value
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.right, (cst.Integer, cst.Float)):
                node = node.left
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.left, (cst.Integer, cst.Float)):
                node = node.right
            else:
                return node

    def _item_named(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``tensor[i]`` for ``x`` of ``x = tensor[i]``."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        if len(reached) != 1 or reached[0].kind is not BindingKind.ASSIGN or reached[0].path:
            return node
        made = reached[0].value
        is_near = isinstance(made, cst.Subscript) and self._loop_of(made) is self._loop_of(node)
        return made if is_near and isinstance(made, cst.Subscript) else node

    def _loop_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        around = self._module.fact(Loops).around(node)
        return around[0].node if around else None

    def _repeated(self, call: cst.Call, element: cst.BaseExpression) -> ElementRead | None:
        for above, child in climb(self._tree, call):
            if isinstance(above, (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)):
                if self._is_unpacked(above):
                    return None
                return self._in_comprehension(call, element, above)
            if isinstance(above, cst.For) and child is above.body:
                found = self._in_loop(call, element, above)
                if found is not None or self._module.fact(Loops).of(above).loaders:
                    return found  # the loops around a batch are those of the program
            if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.While)):
                return None
        return None

    def _is_unpacked(self, made: cst.BaseExpression) -> bool:
        """``a, b = (x.item() for x in pair)``: a few numbers."""
        statement = self._tree.parent(made)
        return isinstance(statement, cst.Assign) and any(
            isinstance(item.target, (cst.Tuple, cst.List)) for item in statement.targets
        )

    def _in_comprehension(self, call: cst.Call, element: cst.BaseExpression, made: cst.BaseComp) -> ElementRead | None:
        source = made.for_in
        if source.inner_for_in is not None:
            return None
        tensor = self._in_pairs(element, source.target, source.iter)
        if isinstance(source.target, cst.Name):
            name = source.target.value
            tensor = self._tensor_of(element, name, source.iter) or self._rows_of(element, name, source.iter)
        if tensor is None:
            return None
        is_item = isinstance(call.func, cst.Attribute) and call.func.attr.value == "item"
        is_whole = (
            isinstance(made, cst.BaseSimpleComp)
            and made.elt is call
            and is_item
            and not source.ifs
            and self._covers(source.iter, tensor)
        )
        is_whole = is_whole and len(indexed(element)[1]) < 2
        line = is_whole and self._module.fact(TensorForms).is_line(tensor)
        return ElementRead(made, made, tensor, element, is_whole and not isinstance(made, cst.SetComp), line)

    def _rows_of(self, element: cst.BaseExpression, name: str, over: cst.BaseExpression) -> cst.BaseExpression | None:
        """``boxes`` if ``element`` is ``box[0]``, and ``box`` iterates over them."""
        if not isinstance(element, cst.Subscript) or len(element.slice) != 1 or isinstance(over, cst.Call):
            return None
        index = element.slice[0].slice
        is_number = isinstance(index, cst.Index) and re.fullmatch(r"-?\d+", self._module.code(index.value))
        return over if is_number and isinstance(element.value, cst.Name) and element.value.value == name else None

    def _in_loop(self, call: cst.Call, element: cst.BaseExpression, loop: cst.For) -> ElementRead | None:
        pair = self._in_pairs(element, loop.target, loop.iter)
        if pair is not None:
            return None if self._is_bound_in(pair, loop) else ElementRead(call, loop, pair, element, False, False)
        counts = self._module.name_of(self._module.callee(loop.iter)) == "builtins.enumerate"
        target: cst.BaseExpression = loop.target
        if isinstance(target, cst.Tuple) and counts:
            target = target.elements[0].value
        parts = [item.value for item in target.elements] if isinstance(target, cst.Tuple) else [target]
        names = [part.value for part in parts if isinstance(part, cst.Name)]
        found = (self._tensor_of(element, name, loop.iter, is_whole=len(parts) == 1) for name in names)
        tensor = next((item for item in found if item is not None), None)
        if tensor is None or self._is_bound_in(tensor, loop) or self._has_other_index(element, loop):
            return None
        is_of_column = any(isinstance(index, cst.Integer) for index in indexed(element)[1][-1:])
        if is_of_column and self._converts(call):
            return None  # `int(places[i][0])` is often of a table on the CPU
        return ElementRead(call, loop, tensor, element, False, False)

    def _in_pairs(
        self, element: cst.BaseExpression, target: cst.BaseExpression, over: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """``lengths`` if ``element`` is ``x`` of ``i, x in enumerate(lengths)``, or of ``x, y in zip(lengths, names)``.

        ``target`` are the variables of the loop, of which one is for the elements.
        """
        if not isinstance(target, cst.Tuple) or not isinstance(element, cst.Name):
            return None
        path = self._place_in(target, element.value)
        given = list(iterables(self._module.names, over, path)) if path else []
        found = [item for pair in given for item in self._joined(*pair)]
        whole = [item for item, rest in found if not rest]
        return whole[0] if len(whole) == 1 and whole[0] is not over else None

    def _joined(
        self, over: cst.BaseExpression, path: tuple[int, ...]
    ) -> Iterator[tuple[cst.BaseExpression, tuple[int, ...]]]:
        """``sigmas``, of the variable ``pairs`` after ``pairs = list(zip(sigmas, gammas))``; else what is given."""
        made = self._module.values.reaching.assigned(over) if path and isinstance(over, cst.Name) else None
        if isinstance(made, cst.Call) and self._module.name_of(made.func) == "builtins.list" and len(made.args) == 1:
            yield from iterables(self._module.names, made.args[0].value, path)
        else:
            yield over, path

    def _place_in(self, target: cst.Tuple, name: str) -> tuple[int, ...]:
        """Where the variable of a loop is among others: ``(1, 0)`` for ``x`` of ``i, (x, y)``; else nothing."""
        for place, part in enumerate(target.elements):
            if isinstance(part.value, cst.Name) and part.value.value == name:
                return (place,)
            inner = self._place_in(part.value, name) if isinstance(part.value, cst.Tuple) else ()
            if inner:
                return (place, *inner)
        return ()

    def _tensor_of(
        self, element: cst.BaseExpression, name: str, over: cst.BaseExpression, *, is_whole: bool = True
    ) -> cst.BaseExpression | None:
        """The tensor of whose elements ``element`` is one: ``v`` of ``v[i]``, or what ``x`` iterates over.

        ``is_whole``: whether a loop binds all that it iterates over to the name.
        """
        if isinstance(element, cst.Name) and element.value == name and is_whole:
            while isinstance(over, cst.Call) and over.args and called_name(over) in ("tqdm", "trange", "track"):
                over = over.args[0].value
            return None if isinstance(over, cst.Call) and self._is_counting(over) else over
        container, indices = indexed(element)
        names = [index.value if isinstance(index, (cst.Name, cst.Integer)) else "" for index in indices]
        text = self._module.code(container)
        is_dict = self._module.code(over) in (text, f"{text}.keys()")  # `for key in losses: losses[key].item()`
        is_named = isinstance(container, cst.Name) or is_attribute_of_self(container)
        is_named = (is_named or self._is_field(container, self._tree.parent(over))) and not is_dict
        return container if all(names) and names.count(name) == 1 and is_named else None

    def _is_field(self, node: cst.BaseExpression, loop: cst.CSTNode | None) -> bool:
        """Whether ``node`` is an attribute of an object, and a loop that reads its elements iterates over a tensor.

        ``results.scores`` of ``for i in torch.argsort(results.scores): results.scores[i].item()``. Or the loop counts,
        and the program stores nothing but tensors under the name of the attribute.
        """
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name) or node.value.value == "self":
            return False
        if not isinstance(loop, cst.For) or self._is_on_host(loop.iter):
            return False
        if isinstance(loop.iter, cst.Call) and self._is_counting(loop.iter):
            return self._tensors.is_stored(node.attr.value)
        return self._tensors.is_tensor(loop.iter, has_items=True)

    def _is_counting(self, call: cst.Call) -> bool:
        return self._module.name_of(call.func) in _COUNTING

    def _covers(self, over: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
        """Whether ``over`` iterates over all of ``tensor``: it is it, or ``range(len(tensor))``."""
        if over is tensor:
            return True
        text = self._module.code(tensor)
        sizes = (f"len({text})", f"{text}.shape[0]", f"{text}.size(0)", f"{text}.numel()")
        return self._module.code(over) in [f"range({size})" for size in sizes]

    def _is_bound_in(self, tensor: cst.BaseExpression, loop: cst.For) -> bool:
        """Whether an iteration makes the tensor: each reads another one; a method may set an attribute."""
        if is_attribute_of_self(tensor):
            stored = self._module.fact(Stores).attributes.get(trailing_name(tensor), ())
            methods = (call.func for call in self._tree.calls_in(loop.body))
            return any(self._tree.within(at, loop) for _, _, at in stored) or any(map(is_attribute_of_self, methods))
        if isinstance(tensor, cst.Attribute):
            stored = self._module.fact(Stores).attributes.get(trailing_name(tensor), ())
            if any(self._tree.within(at, loop) for _, _, at in stored):
                return True
        names = self._tree.inside(tensor, cst.Name)
        return any(
            self._tree.within(binding.node, loop) for name in names for binding in self._module.values.reaching.of(name)
        )

    def _has_other_index(self, element: cst.BaseExpression, loop: cst.For) -> bool:
        """Whether an iteration computes another index of an element: ``scores[row, i]``."""
        bound = self._tree.names_in(loop.target)
        return any(
            isinstance(index, cst.Name) and index.value not in bound and self._is_bound_in(index, loop)
            for index in indexed(element)[1]
        )

    def _is_row_of_step(self, read: ElementRead, call: cst.Call) -> bool:
        """Whether a single number is read from a row of something that a training step computes on.

        A list contains tensors, but a list of lists of single numbers on the GPU is rare.
        """
        if self._converts(call):
            return False  # `float(x)` may read a number as well
        root, indices = indexed(read.element)
        levels = len(indices) + (root is not read.tensor)  # `x[0]` where `x` iterates over the tensor
        over = self._module.callee(read.loop.iter) if isinstance(read.loop, cst.For) else None
        if over is not None and self._module.name_of(over) not in _COUNTING:
            return False
        is_row = levels > 1 or (levels == 1 and isinstance(read.tensor, cst.Name) and self._is_row(read.tensor))
        return is_row and self._module.fact(StepTensors).is_tensor_of_step(read.tensor)

    def _is_row(self, name: cst.Name, depth: int = 2) -> bool:
        """Whether a variable is what a loop iterates over, or all callers pass that for it."""
        reached = self._module.values.reaching.of(name)
        return bool(reached) and all(
            item.kind is BindingKind.FOR or (isinstance(item.node, cst.Param) and self._is_row_given(item.node, depth))
            for item in reached
        )

    def _is_row_given(self, param: cst.Param, depth: int) -> bool:
        given = self._module.passed_by_all(param, _MAX_CALLERS) if depth > 0 else []
        return bool(given) and all(isinstance(item, cst.Name) and self._is_row(item, depth - 1) for item in given)


def indexed(node: cst.BaseExpression) -> tuple[cst.BaseExpression, list[cst.BaseExpression | None]]:
    """What is indexed, and all indices: ``x`` and ``i``, ``0`` of ``x[i][0]`` or ``x[i, 0]``; None for a slice."""
    found: list[cst.BaseExpression | None] = []
    while isinstance(node, cst.Subscript):
        found[:0] = [item.slice.value if isinstance(item.slice, cst.Index) else None for item in node.slice]
        node = node.value
    return node, found


def _is_number(index: cst.CSTNode | None) -> bool:
    """Whether an index is a name, which may be that of a number; not ``None`` or ``Ellipsis``."""
    return isinstance(index, cst.Name) and index.value not in ("None", "Ellipsis")
