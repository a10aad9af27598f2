"""Functions of torch that create a tensor on the host, of sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import Call, keywords_of
from torchlint.model.syntax.literals import is_none
from torchlint.model.tensors.creation import DRAWN, DRAWN_IF_SIZED, EXACT, FACTORIES, LEGACY
from torchlint.model.tensors.numbers import Numbers

#: Options of a factory for a tensor elsewhere, or one that must be on the host.
_OPTIONS = frozenset({"device", "generator", "out", "pin_memory", "requires_grad"})
#: What makes an array of sizes and numbers, or a range of them, with the function of torch that does the same.
_ARRAYS = {f"numpy.{name}": f"torch.{name}" for name in ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")}
_ARRAYS |= {"numpy.identity": "torch.eye", "numpy.tri": "torch.ones", "builtins.range": "torch.arange"}
#: The number of parameters of a normal distribution.
_PARAMETERS = 2
#: Distributions with the functions of torch that draw from a form of them.
_DRAWING_AS = {"Normal": "torch.randn", "Uniform": "torch.rand"}


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
    returned: bool = False  #: whether a function of the program creates and returns it
    by_torch: str = ""  #: the function of torch that can create it, if its factory is a type or makes an array or list


class HostFactories(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def of(self, node: cst.Call, name: str, *, filled: bool = False, on_host: bool = False) -> NewTensor | None:
        """What a function of torch with this name creates on the host.

        A type such as ``torch.FloatTensor`` if it gets several sizes or those of a tensor; if the result is ``filled``,
        a value that is not a written list is a size as well. With ``on_host``, a device that it is given is the host.
        """
        call, last = self._forest.call(node, name), name.removeprefix("torch.")
        if last in LEGACY and self._is_sized(call, filled=filled):
            return NewTensor(call, False, False, legacy=True, by_torch="torch.empty")
        is_sized = last in DRAWN_IF_SIZED and has_size(node)
        return self._made_by(call, last, on_host) if is_sized or last in FACTORIES else None

    def of_array(self, node: cst.Call, name: str) -> NewTensor | None:
        """The tensor of an array that a function with this name creates, of sizes and numbers."""
        if name not in _ARRAYS or any(item.star == "**" for item in node.args):
            return None
        return NewTensor(self._forest.call(node, name), False, False, hosted=True, by_torch=_ARRAYS[name])

    def of_repeated(self, node: cst.Call, name: str) -> NewTensor:
        """The tensor, or array, that a function with this name makes of one number: ``torch.tensor([1] * n)``."""
        return NewTensor(self._forest.call(node, name), False, False, hosted=True, by_torch="torch.full")

    def of_distribution(self, node: cst.Call, name: str) -> NewTensor | None:
        """What a distribution with this name, of constants and numbers alone, draws from on the host.

        The first of its tensors: ``torch.tensor([0.0])`` of ``Normal(torch.tensor([0.0]), 1)``, which draws where that
        tensor is. A distribution of numbers draws on the host: ``Normal(0, 1)``.
        """
        given = [item.value for item in node.args if not item.star]
        numbers = self._forest.fact(Numbers)
        tensors = [item for item in given if not numbers.is_number(item) and not numbers.is_setting(item)]
        if not given or len(given) < len(node.args) or not all(map(self.is_constant, tensors)):
            return None
        if tensors and isinstance(tensors[0], cst.Call):
            return NewTensor(self._forest.call(tensors[0], "torch.tensor"), False, True, hosted=True)
        by_torch = _DRAWING_AS.get(name.rpartition(".")[2], "")
        return NewTensor(self._forest.call(node, name), False, True, hosted=True, by_torch=by_torch)

    def is_constant(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` makes a tensor of written numbers on the host: ``torch.tensor([0.0])``."""
        if not isinstance(node, cst.Call) or has_device(node) or not node.args:
            return False
        name, data = self._forest.name_of(node.func), node.args[0].value
        items = [item.value for item in data.elements] if isinstance(data, cst.List) else [data]
        return name == "torch.tensor" and all(map(self._forest.fact(Numbers).is_number, items))

    def casts(self, call: cst.Call, method: str) -> bool:
        """Whether a method only casts: ``x.to(torch.long)``, ``x.type(torch.float32)``."""
        if method not in ("to", "type") or len(call.args) != 1:
            return False
        value = call.args[0].value
        named = isinstance(value, cst.Attribute) and value.attr.value == "dtype"
        return named or self._forest.value(value).kind is Kind.DTYPE

    def _made_by(self, call: Call, last: str, on_host: bool) -> NewTensor | None:
        known = _OPTIONS - {"device"} if on_host else _OPTIONS
        options = [item for item in call.node.args if item.keyword is not None and item.keyword.value in known]
        into = [item for item in options if not is_default(item)]
        if any(item.star == "**" for item in call.node.args) or not all(map(self._is_into_new, into)):
            return None
        drawn = last in DRAWN | DRAWN_IF_SIZED
        exact = last in EXACT or (not drawn and self._counts(call))
        return NewTensor(call, exact, drawn, hosted=bool(into))

    def _is_into_new(self, option: cst.Arg) -> bool:
        """Whether an option is a new tensor for the result: ``out=torch.LongTensor(count)``."""
        if option.keyword is None or option.keyword.value != "out" or not isinstance(option.value, cst.Call):
            return False
        return (self._forest.name_of(option.value.func) or "").removeprefix("torch.") in LEGACY

    def _is_sized(self, call: Call, *, filled: bool) -> bool:
        """Whether a type is given sizes and no data: several arguments, a number, or the shape of a tensor."""
        arguments = call.node.args
        if any(item.keyword is not None or item.star == "**" for item in arguments):
            return False
        if len(arguments) != 1:
            return len(arguments) > 1
        given = arguments[0].value
        is_data = isinstance(given, (cst.List, cst.Tuple, cst.ListComp))
        return (filled and not is_data) or self._is_shape(given)  # data would be lost

    def _is_shape(self, node: cst.BaseExpression) -> bool:
        """``x.shape``, ``x.size()``, and with more sizes: ``x.size() + (classes,)``; perhaps by a name."""
        if isinstance(node, cst.Name):
            given = self._forest.values.reaching.only(node)
            return given is not None and not given.path and given.value is not None and self._is_shape(given.value)
        if isinstance(node, cst.BinaryOperation):
            return isinstance(node.operator, cst.Add) and (self._is_shape(node.left) or self._is_shape(node.right))
        if isinstance(node, cst.Call):
            return isinstance(node.func, cst.Attribute) and node.func.attr.value == "size"
        return isinstance(node, cst.Attribute) and node.attr.value == "shape"

    def _counts(self, call: Call) -> bool:
        """Whether ``arange`` counts in whole steps from a whole number, which every device does alike."""
        if call.name != "torch.arange" or call.opaque:
            return False
        by_position = [item.value for item in call.node.args if item.keyword is None]
        named = keywords_of(call.node)
        given = [*by_position[:1], *by_position[2:]] if len(by_position) > 1 else []
        given += [named[name] for name in ("start", "step") if name in named]
        return all(self._is_whole(node) for node in given)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.UnaryOperation):
            node = node.expression
        return isinstance(node, cst.Integer) or isinstance(self._forest.value(node).constant, int)


def is_default(option: cst.Arg) -> bool:
    """Whether an option only states its default: ``requires_grad=False``."""
    return isinstance(option.value, cst.Name) and option.value.value == "False"


def means_nothing(argument: cst.Arg) -> bool:
    """Whether an argument of ``Variable`` changes nothing: ``requires_grad=False``, or ``volatile``, which is gone."""
    if argument.keyword is None:
        return False
    return argument.keyword.value == "volatile" or (argument.keyword.value == "requires_grad" and is_default(argument))


def has_size(call: cst.Call) -> bool:
    """Whether ``torch.normal`` is given a size, behind two numbers or by name."""
    by_position = [item for item in call.args if item.keyword is None and not item.star]
    return len(by_position) > _PARAMETERS or any(item.keyword and item.keyword.value == "size" for item in call.args)


def has_device(call: cst.Call) -> bool:
    """Whether a call passes ``device=``, or may do so."""
    return any(item.star == "**" or (item.keyword is not None and item.keyword.value == "device") for item in call.args)


def operands(node: cst.BinaryOperation | cst.Comparison) -> list[cst.BaseExpression]:
    """What an operator computes from."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    return [node.left, *(item.comparator for item in node.comparisons)]


def joined_items(given: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
    """The tensors in the arguments of ``torch.cat([x, y], 1)`` and ``torch.meshgrid(x, y)``."""
    return [
        item.value if isinstance(item, cst.Element) else item
        for node in given
        for item in (node.elements if isinstance(node, (cst.List, cst.Tuple)) else (node,))
        if isinstance(item, (cst.Element, cst.BaseExpression))
    ]


def selects(node: cst.Subscript) -> bool:
    """Whether an index gives a part or another shape, by numbers alone: ``x[None, :]``, ``x[:count]``."""
    return all(not isinstance(item.slice, cst.Index) or _is_place(item.slice.value) for item in node.slice)


def _is_place(node: cst.BaseExpression) -> bool:
    node = node.expression if isinstance(node, cst.UnaryOperation) else node
    if isinstance(node, cst.Attribute):
        return node.attr.value == "newaxis"
    return isinstance(node, (cst.Integer, cst.Ellipsis)) or is_none(node)
