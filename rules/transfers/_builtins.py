"""Builtin functions that iterate over one tensor: ``sum(x)``, ``max(x)``, ``any(mask)``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.program.tensor_methods import METHODS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.dotted import called_name, last_part
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes

#: The builtin functions that read all elements of their argument.
NAMES = ("sum", "max", "min", "sorted", "any", "all")
#: Functions and methods that give tuples or lists of tensors, at least with some arguments.
_TUPLES = frozenset(
    "unbind split chunk tensor_split hsplit vsplit dsplit split_with_sizes meshgrid where broadcast_tensors "
    "tolist size stride gather_for_metrics".split()
)
_FEW = 16  #: elements of a literal below which the iteration costs little


@dataclass(frozen=True, eq=False)
class BuiltinCall:
    """A call such as ``sum(x)`` of a tensor."""

    call: cst.Call
    name: str
    tensor: cst.BaseExpression


class BuiltinCalls:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[BuiltinCall]:
        """The calls in the file, in order."""
        purposes = self._module.fact(Purposes)
        for call in self._module.own_calls(*(f"builtins.{name}" for name in NAMES)):
            given = call.node.args
            if len(given) != 1 or given[0].keyword is not None or given[0].star:
                continue
            if purposes.is_self_test(call.node):
                continue
            if self._is_tensor(given[0].value) and not purposes.is_in_constructor(call.node):
                yield BuiltinCall(call.node, last_part(call.name), given[0].value)

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        if self._may_be_several(node) or self._is_short(node):
            return False
        value = self._module.value(node)
        if value.kind is Kind.TENSOR and value.sure and value.role is not Role.BATCH and not value.elements:
            return True
        return self._module.fact(TensorForms).is_tensor(node)

    def _may_be_several(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` may be several tensors: ``torch.unbind(x)``, ``model(x)``, a part of what it returns."""
        is_part = isinstance(node, cst.Subscript)
        while isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.Name):
            return any(
                isinstance(item.value, (cst.Name, cst.Call, cst.Subscript)) and self._may_be_several(item.value)
                for item in self._reaching(node)
                if item.value is not node
            )
        if not isinstance(node, cst.Call):
            return False
        if called_name(node) in _TUPLES or (called_name(node) == "nonzero" and node.args):
            return True
        if self._module.name_of(node.func) is not None:
            return False
        func = node.func
        if isinstance(func, cst.Attribute) and func.attr.value in METHODS | {"nonzero"}:
            return False
        if is_part and called_name(node) in ("topk", "sort", "max", "min"):  # `x.topk(5)[0]`
            return False
        return not self._module.definitions.called(node, self._module.values) or self._runs_network(node)

    def _runs_network(self, call: cst.Call) -> bool:
        return self._module.fact(Networks).is_forward(call)

    def _is_short(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` is made of a list of a few numbers."""
        if isinstance(node, cst.Name):
            return any(not item.path and self._is_short(item.value) for item in self._reaching(node))
        if not isinstance(node, cst.Call) or not node.args:
            return False
        data = node.args[0].value
        return isinstance(data, (cst.List, cst.Tuple)) and len(data.elements) < _FEW

    def _reaching(self, node: cst.Name) -> list[Binding]:
        return self._module.values.reaching.of(node)
