"""Tensors that a `forward` converts to NumPy arrays, and back to tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

_BACK = frozenset(
    f"torch.{name}"
    for name in (
        *("from_numpy", "tensor", "as_tensor", "asarray", "Tensor"),
        *("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "BoolTensor"),
    )
)
#: Methods that only tensors have, before ``.numpy()``.
_TENSOR_METHODS = frozenset({"cpu", "detach"})
#: Functions of NumPy for which torch has none, or that draw numbers or read and write files.
_WITHOUT_COUNTERPART = re.compile(
    r"numpy\.(random|ma|linalg\.lstsq|testing|lib|char|fft\.helper)\."
    r"|numpy\.\w*(interp|poly|save|load|lexsort|convolve|correlate|apply_along|vectorize|frompyfunc|unwrap|insert|delete"
    r"|setdiff|setxor|intersect|union1d|print|from(string|file|iter|regex)|object)\w*"
)
#: Functions of Python for sizes and for single items, and those that show them, also by ``"{}".format(n)``.
_OF_NUMBERS = frozenset(f"builtins.{name}" for name in "len min max abs round int float bool print str".split())
#: Conditions that are true at every call in training or in evaluation.
_USUAL = re.compile(r"(not )?self\.training|[\w.]+ is (not )?None")


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A computation on the host between two copies."""

    node: cst.Call  #: ``x.detach().cpu().numpy()``
    back: cst.Call  #: ``torch.from_numpy(result)``
    function: cst.FunctionDef


class RoundTrips:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[RoundTrip]:
        """The tensors that the file converts to an array in a `forward` whose result comes back, in order."""
        seen: set[cst.CSTNode] = set()
        for call in self._module.own_methods("numpy"):
            node, function = call.node, self._module.function_of(call.node)
            if function is None or function in seen or not self._is_of_tensor(call):
                continue
            if "numpy" in function.name.value.lower():
                continue  # one of several ways to compute the same, chosen deliberately
            if not self._is_usual(node, function) or self._module.fact(Purposes).is_self_test(node):
                continue
            repeated = self._module.fact(StepPlaces).repeating(node)
            back = None if repeated is None or repeated.is_loop else self._back(node, function)
            if back is not None:
                seen.add(function)
                yield RoundTrip(node, back, function)

    def _is_of_tensor(self, call: Call) -> bool:
        """Whether the receiver of ``.numpy()`` is a tensor that may be on a GPU."""
        node = call.node.func
        while isinstance(node, cst.Attribute):
            owner = node.value
            if isinstance(owner, cst.Call) and isinstance(owner.func, cst.Attribute):
                if owner.func.attr.value in _TENSOR_METHODS and self._module.name_of(owner.func) is None:
                    return True
                node = owner.func
            elif isinstance(owner, cst.Attribute):
                node = owner
            else:
                break
        return self._module.fact(TensorForms).is_tensor(call.receiver)

    def _is_usual(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether ``node`` runs at every call, in training or in evaluation at least."""
        for above, child in climb(self._tree, node):
            if above is function:
                return True
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                if _USUAL.fullmatch(self._module.code(above.test)) is None:
                    return False
            if isinstance(above, (*HANDLERS, cst.MatchCase, cst.For, cst.While, cst.CompFor)):
                return False
        return False

    def _back(self, start: cst.Call, function: cst.FunctionDef) -> cst.Call | None:
        """Where a result of the array becomes a tensor; None if something else than NumPy may use the array."""
        arrays: set[str] = set()
        filled: set[str] = set()  # arrays to which such an array, or numbers at its places, are written
        back: cst.Call | None = None
        behind = self._tree.index(start)
        given: dict[str, int] = {}  # names that get another value, and where the statement ends that gives it
        for node in self._tree.nodes_in(function.body):
            ended = [name for name, end in given.items() if end < self._tree.index(node)]
            for name in ended:
                arrays.discard(name)
                filled.discard(name)
                del given[name]
            called = self._module.name_of(node.func) if isinstance(node, cst.Call) else None
            if isinstance(node, cst.Call) and called in _BACK and self._takes_array(node, start, arrays | filled):
                if self._takes_array(node, start, arrays) or self._is_moved(node, function):
                    back = back or node
            elif isinstance(node, cst.Call) and node is not start and self._takes_array(node, start, arrays):
                if not self._computes(node, called, start, arrays):
                    return None
            elif self._hands_out(node, start, arrays):
                return None
            elif isinstance(node, cst.Assign) and self._tree.index(node) + len(self._tree.nodes_in(node)) > behind:
                targets = [target.target for target in node.targets]
                filled.update(self._filled(targets, node.value, start, arrays))
                if self._is_array(node.value, start, arrays):
                    if not all(isinstance(target, (cst.Name, cst.Subscript)) for target in targets):
                        return None
                    arrays.update(target.value for target in targets if isinstance(target, cst.Name))
                elif self._tree.parent(self._tree.parent(node) or node) is function.body:
                    end = self._tree.last(node)
                    given.update((item.target.value, end) for item in node.targets if isinstance(item.target, cst.Name))
        return back

    def _is_moved(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the tensor that a call makes is moved: ``torch.from_numpy(x).cuda()``, there or by its name."""
        statement = self._tree.statement_of(call)
        named = [dotted_name(item.target) for item in statement.targets] if isinstance(statement, cst.Assign) else []
        return any(
            move.source is call or (dotted_name(move.source) or "") in named
            for move in self._module.fact(Placement).moves
            if self._tree.within(move.call, function)
        )

    def _filled(
        self,
        targets: list[cst.BaseAssignTargetExpression],
        value: cst.BaseExpression,
        start: cst.Call,
        arrays: set[str],
    ) -> Iterator[str]:
        """``weights`` of ``weights[mask] = 1``, where ``mask`` or the value is such an array."""
        for target in targets:
            if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
                if self._is_array(value, start, arrays) or any(
                    self._contains_array(item, start, arrays) for item in target.slice
                ):
                    yield target.value.value

    def _hands_out(self, node: cst.CSTNode, start: cst.Call, arrays: set[str]) -> bool:
        """Whether a loop depends on an array, or the function returns or yields one."""
        if isinstance(node, (cst.For, cst.While)):
            head = node.iter if isinstance(node, cst.For) else node.test
            return self._contains_array(head, start, arrays)
        return (
            isinstance(node, (cst.Return, cst.Yield))
            and node.value is not None
            and self._is_array(node.value, start, arrays)
        )

    def _takes_array(self, call: cst.Call, start: cst.Call, arrays: set[str]) -> bool:
        return any(self._is_array(item.value, start, arrays) for item in call.args)

    def _computes(self, call: cst.Call, name: str | None, start: cst.Call, arrays: set[str]) -> bool:
        """Whether a call computes an array from arrays, by a function that torch has as well, or shows one."""
        if name is not None:
            return name in _OF_NUMBERS or (name.startswith("numpy.") and _WITHOUT_COUNTERPART.match(name) is None)
        if not isinstance(call.func, cst.Attribute):
            return False
        return isinstance(call.func.value, cst.SimpleString) or self._is_array(call.func.value, start, arrays)

    def _contains_array(self, node: cst.CSTNode, start: cst.Call, arrays: set[str]) -> bool:
        return any(
            item is start or (isinstance(item, cst.Name) and item.value in arrays) for item in self._tree.nodes_in(node)
        )

    def _is_array(self, node: cst.CSTNode, start: cst.Call, arrays: set[str]) -> bool:
        """Whether an expression is the array, or an array computed from it."""
        if node is start:
            return True
        if isinstance(node, cst.Name):
            return node.value in arrays
        if isinstance(node, cst.Attribute):
            return node.attr.value == "T" and self._is_array(node.value, start, arrays)
        if isinstance(node, cst.Subscript):
            return self._is_array(node.value, start, arrays)
        if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
            left = self._is_array(node.left, start, arrays)
            others = [node.right] if isinstance(node, cst.BinaryOperation) else [x.comparator for x in node.comparisons]
            return left or any(self._is_array(other, start, arrays) for other in others)
        if isinstance(node, cst.UnaryOperation):
            return self._is_array(node.expression, start, arrays)
        if isinstance(node, (cst.Tuple, cst.List)):
            return any(self._is_array(item.value, start, arrays) for item in node.elements)
        if not isinstance(node, cst.Call):
            return False
        name = self._module.name_of(node.func)
        if name in _BACK:
            return False
        if name is None and isinstance(node.func, cst.Attribute):
            return self._is_array(node.func.value, start, arrays) or (
                not self._module.definitions.called(node, self._module.values)
                and self._takes_array(node, start, arrays)
            )
        return self._takes_array(node, start, arrays)
