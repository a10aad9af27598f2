"""Functions of the program that make a tensor of sizes and numbers on the host and return it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.reaching import MANY
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.tensors.creation import COMPUTING, OF_EINOPS, READING, SAME_EVERYWHERE, WHOLE
from torchlint.model.tensors.generated_lists import GeneratedLists
from torchlint.model.tensors.host_factories import (
    HostFactories,
    NewTensor,
    has_device,
    joined_items,
    operands,
    selects,
)
from torchlint.model.tensors.numbers import Numbers

#: Methods whose result is, or may be, elsewhere or no tensor.
_LEAVING = frozenset("to cuda cpu type type_as item tolist numpy size dim numel data_ptr get_device pin_memory".split())
#: Decorators that change nothing about what a function returns.
_PLAIN = frozenset({"staticmethod", "classmethod", "torch.no_grad()"})
#: Functions of torch that compute from one tensor alone, which is their first argument.
_OF_ONE = (WHOLE - {"repeat_interleave"}) | {"pad"}
#: ... and each element from one number.
_OF_NUMBERS = COMPUTING | {"logit", "erf", "erfinv", "special.expit", "special.logit"}
#: What the names of distributions begin with, and their methods that draw.
_DRAWING = "torch.distributions."
_SAMPLING = frozenset({"sample", "rsample"})
#: Functions that return several tensors.
_GRIDS = ("torch.meshgrid", "numpy.meshgrid")
#: Kinds of values that are not tensors.
_OTHERS = frozenset({Kind.NUMBER, Kind.STRING, Kind.DTYPE, Kind.NONE})
#: The maximum number of iterations of a loop that writes to a tensor, and of functions that a call may run.
_FEW = 8

#: The parameters of a function that are given a new tensor, with that; None for those that name the host as a device.
_Given: TypeAlias = frozenset[tuple[cst.CSTNode, "NewTensor | None"]]


class ReturnedTensors(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._numbers = forest.fact(Numbers)
        self._lists = forest.fact(GeneratedLists)
        self._factories = forest.fact(HostFactories)
        self._known: CyclicMemo[tuple[cst.BaseExpression, _Given], NewTensor | None] = CyclicMemo(None)
        self._plain: dict[cst.FunctionDef, bool] = {}

    def of(self, call: cst.Call) -> NewTensor | None:
        """What a function of the program, which ``call`` runs, makes of sizes and numbers and returns.

        None if it may return something else, keeps the tensor, reads its elements, or sets them one by one in a loop,
        which is slow on a GPU.
        """
        if any(isinstance(item.value, cst.Name) and self.computed(item.value) for item in call.args):
            return None  # a tensor with a name may also be used on the host
        return self._of_program(call, frozenset())

    def computed(self, node: cst.BaseExpression) -> NewTensor | None:
        """What ``node`` computes of sizes and numbers, whatever else its names are used for."""
        return self._made(node, frozenset())

    def drawn(self, call: cst.Call) -> NewTensor | None:
        """What a distribution of constants draws on the host: ``Normal(0, 1).sample((count,))``."""
        func = call.func
        if not call.args or not isinstance(func, cst.Attribute) or func.attr.value not in _SAMPLING:
            return None
        made = self.computed(func.value)
        given = self._forest.values.reaching.only(func.value) if isinstance(func.value, cst.Name) else None
        source = func.value if given is None or given.path else given.value
        is_distribution = isinstance(source, cst.Call) and (self._forest.name_of(source.func) or "").startswith(
            _DRAWING
        )
        return made if is_distribution else None

    def _of_program(self, call: cst.Call, given: _Given) -> NewTensor | None:
        if any(item.star for item in call.args):
            return None
        called = self._forest.definitions.called(call, self._forest.values)
        if not called or len(called) > _FEW:
            return None
        first = _of_all(self._of_function(call, item, given) for item in called)  # methods of several classes
        return None if first is None else replace(first, named=True, returned=True)

    def _of_function(self, call: cst.Call, function: cst.CSTNode, given: _Given) -> NewTensor | None:
        if not isinstance(function, cst.FunctionDef) or not self._is_plain(function):
            return None
        new: set[tuple[cst.CSTNode, NewTensor | None]] = set()
        for param in parameters_of(function):
            passed = self._forest.definitions.argument_of(call, function, param)
            made = self._made(passed, given) if passed is not None else None
            if made is not None or ("device" in param.name.value and self._is_host(passed or param.default, given)):
                new.add((param, made))
        reached = self._forest.values.branches.reached(call, function)
        returned = self._forest.definitions.returns(function) if reached is None else reached
        if len(returned) > MANY:
            return None
        passed_on = frozenset(new)
        filled = (item for item in returned if not self._is_small(item))
        return _of_all(None if item is None else self._made(item, passed_on) for item in filled)

    def _is_host(self, node: cst.BaseExpression | None, given: _Given) -> bool:
        """Whether ``node``, which a function is given as a device, is the host: ``"cpu"``, None, or a name of it."""
        if node is None:
            return False
        if isinstance(node, cst.Name) and not is_none(node):
            reached = self._forest.values.reaching.of(node)
            return bool(reached) and all((item.node, None) in given for item in reached)
        return is_none(node) or named_device(self._forest.value(node)) is Device.CPU

    def _is_elsewhere(self, call: cst.Call, given: _Given) -> bool:
        """Whether a call passes a device that may be another one than the host."""
        return has_device(call) and not self._is_host(keywords_of(call).get("device"), given)

    def _is_small(self, node: cst.BaseExpression | None) -> bool:
        """Whether a function returns a tensor of written numbers, or without any: ``torch.tensor([])``."""
        while isinstance(node, cst.Subscript) and selects(node):
            node = node.value
        data = node.args[0].value if isinstance(node, cst.Call) and node.args else None
        if not isinstance(node, cst.Call) or not isinstance(data, cst.List):
            return False
        items = (item.value for item in data.elements)
        return self._forest.name_of(node.func) == "torch.tensor" and all(map(self._is_plain_number, items))

    def _is_plain_number(self, node: cst.BaseExpression) -> bool:
        return self._numbers.is_number(node) or self._numbers.is_setting(node)

    def _is_plain(self, function: cst.FunctionDef) -> bool:
        """Whether a function always makes its result anew, with few operations on tensors."""
        if function in self._plain:
            return self._plain[function]
        found, is_final = self._known.attempt(lambda: self._find_plain(function))
        if is_final:
            self._plain[function] = found
        return found

    def _find_plain(self, function: cst.FunctionDef) -> bool:
        return (
            function.asynchronous is None
            and all(self._forest.code(item.decorator) in _PLAIN for item in function.decorators)
            and not self._forest.tree.inside(function.body, cst.While, cst.Global, cst.Nonlocal, cst.Yield)
            and all(map(self._is_short, self._forest.tree.inside(function.body, cst.For)))
            and not any(
                isinstance(call.func, cst.Attribute) and call.func.attr.value in READING
                for call in self._forest.tree.calls_in(function.body)
            )
            and all(map(self._writes_numbers, self._forest.tree.inside(function.body, cst.Assign)))
            and all(map(self._writes_numbers, self._forest.tree.inside(function.body, cst.AugAssign)))
        )

    def _is_short(self, loop: cst.For) -> bool:
        """Whether a loop has a few iterations for certain: over a tuple or list that is written there."""
        over: cst.BaseExpression | None = loop.iter
        if isinstance(over, cst.Name):
            reached = self._forest.values.reaching.of(over)
            over = reached[0].value if len(reached) == 1 and not reached[0].path else None
        return isinstance(over, (cst.Tuple, cst.List)) and len(over.elements) <= _FEW

    def _writes_numbers(self, statement: cst.Assign | cst.AugAssign) -> bool:
        """Whether an assignment to elements, if it is one, writes to a new tensor alone: ``mask[:, rows] = count``."""
        targets = [statement] if isinstance(statement, cst.AugAssign) else statement.targets
        for target in (item.target for item in targets):
            if isinstance(target, cst.Attribute):
                return False  # it is kept
            if isinstance(target, cst.Subscript):
                places = [part.slice.value for part in target.slice if isinstance(part.slice, cst.Index)]
                if not all(self._is_place(place) for place in places):
                    return False
                if self.computed(target.value) is None:
                    return False
                if not self._is_other(statement.value) and self.computed(statement.value) is None:
                    return False
        return True

    def _is_place(self, index: cst.BaseExpression) -> bool:
        """Whether an index names elements by numbers, or by a new tensor."""
        return isinstance(index, cst.Ellipsis) or self._is_other(index) or self.computed(index) is not None

    # -- expressions

    def _made(self, node: cst.BaseExpression, given: _Given) -> NewTensor | None:
        return self._known.get((node, given), self._find)

    def _find(self, key: tuple[cst.BaseExpression, _Given]) -> NewTensor | None:
        node, given = key
        if isinstance(node, cst.Name):
            reached = self._forest.values.reaching.of(node)
            return None if len(reached) > MANY else _of_all(self._bound(item, given) for item in reached)
        if isinstance(node, cst.Subscript):
            return self._made(node.value, given) if selects(node) else None
        if isinstance(node, cst.UnaryOperation):
            return self._joined([node.expression], given)
        if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
            return self._joined(operands(node), given)
        over = self._lists.range_of(node)
        if over is not None:
            return self._factories.of_array(over, "builtins.range")
        return self._of_call(node, given) if isinstance(node, cst.Call) else None

    def _bound(self, binding: Binding, given: _Given) -> NewTensor | None:
        """What a name is given."""
        if isinstance(binding.node, cst.Param):
            return dict(given).get(binding.node)
        if binding.kind is not BindingKind.ASSIGN:
            return None
        value = unpacked(binding.value, binding.path)
        if value is None and isinstance(binding.value, cst.Call):
            is_grid = self._forest.name_of(binding.value.func) in _GRIDS
            value = binding.value if is_grid else None  # each of its results is computed from all that it is given
        return None if value is None else self._made(value, given)

    def _of_call(self, node: cst.Call, given: _Given) -> NewTensor | None:
        if self._is_elsewhere(node, given) or any(item.star == "**" for item in node.args):
            return None
        name = self._forest.name_of(node.func) or ""
        passed = [item.value for item in node.args]
        if name.startswith(_DRAWING):
            return self._factories.of_distribution(node, name)
        if name.startswith(("torch.", "numpy.")):
            of_numpy = name.startswith("numpy.")
            created = self._factories.of_array(node, name) if of_numpy else self._factories.of(node, name, on_host=True)
            return created if created is not None else self._of_library(name, passed, given)
        if name in OF_EINOPS and passed:
            return self._made(passed[0], given)
        if name:
            return None
        made = self._made(node.func.value, given) if isinstance(node.func, cst.Attribute) else None
        if made is None or not isinstance(node.func, cst.Attribute):
            return self._of_program(node, given)
        method = node.func.attr.value
        if method in SAME_EVERYWHERE or self._factories.casts(node, method):
            return made
        return None if method in _LEAVING else self._joined([node.func.value, *joined_items(passed)], given)

    def _of_library(self, name: str, passed: list[cst.BaseExpression], given: _Given) -> NewTensor | None:
        """What a function of torch or NumPy computes: also of the tensors in a list that has a name."""
        if passed and name.startswith("torch.") and name.rpartition(".")[2] in _OF_ONE:
            return self._made(passed[0], given)  # its other arguments are numbers or lists of them
        passed = [part for item in passed for part in self._listed(item)]
        return self._joined(joined_items(passed), given)

    def _listed(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a list contains that has a name and only gets items at its end: ``parts = [x]``, ``parts.append(y)``."""
        tree = self._forest.tree
        given = self._forest.values.reaching.only(node) if isinstance(node, cst.Name) else None
        home = self._forest.names.home_of(node) if isinstance(node, cst.Name) else None
        if given is None or given.path or home is None or not isinstance(given.value, cst.List):
            return [node]
        items: list[cst.BaseExpression] = [given.value]
        for use in self._forest.values.reaching.uses_of(given, home):
            if use is node or tree.within(use, given.node):
                continue
            method = tree.parent(use)
            call = tree.parent(method) if isinstance(method, cst.Attribute) and method.attr.value == "append" else None
            if not isinstance(call, cst.Call) or call.func is not method or len(call.args) != 1:
                return [node]
            items.append(call.args[0].value)
        return items

    def _joined(self, nodes: Iterable[cst.BaseExpression], given: _Given) -> NewTensor | None:
        """What is computed from tensors and other values, if all tensors are new."""
        return _of_all(self._made(item, given) for item in nodes if not self._is_other(item))

    def _is_other(self, node: cst.BaseExpression) -> bool:
        """Whether a value is not a tensor."""
        return (
            self._forest.value(node).kind in _OTHERS
            or self._numbers.is_number(node)
            or self._numbers.is_setting(node)
            or self._is_constant(node)
        )

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        """Whether a tensor is made of one number, also by a function of it: ``torch.logit(torch.tensor(0.1))``."""
        if not isinstance(node, cst.Call) or not node.args or has_device(node):
            return False
        name = self._forest.name_of(node.func) or ""
        is_computed = name == "torch.tensor" or name.removeprefix("torch.") in _OF_NUMBERS
        return name.startswith("torch.") and is_computed and all(self._is_other(item.value) for item in node.args)


def _of_all(made: Iterable[NewTensor | None]) -> NewTensor | None:
    """The first of some tensors, which represents all, if all are new."""
    new: list[NewTensor] = []
    for item in made:
        if item is None:
            return None
        new.append(item)
    if not new:
        return None
    first = min(new, key=lambda item: (item.factory.name or "").startswith(_DRAWING))
    return replace(first, exact=False, drawn=any(item.drawn for item in new), hosted=True)
