"""Schedules: tensors of one dimension that a constructor computes from numbers, such as the betas of a diffusion."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import PARAMETER
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name, is_attribute_of_self
from torchlint.model.tensors.creation import COMPUTING
from torchlint.model.tensors.numbers import Numbers

from ._host_tensors import HostTensors

_LINES = frozenset({"torch.arange", "torch.linspace", "torch.logspace"})
_SIZED = frozenset({"torch.full", "torch.ones", "torch.zeros"})
#: What computes each number from one or some of a tensor.
_KEEPING = COMPUTING | {"clone", "contiguous", "cos", "cumprod", "detach", "double", "flip", "float"}
_DEPTH = 8


class Schedules(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def indexed(self, node: cst.BaseExpression) -> cst.Attribute | None:
        """The schedule in ``self`` of which ``node`` is the numbers that an index selects: of ``self.betas[t]``."""
        table = node.value if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
        return table if table is not None and is_attribute_of_self(table) and self._is_line(table, _DEPTH) else None

    def _is_line(self, node: cst.BaseExpression | None, depth: int) -> bool:
        """Whether a tensor has one dimension and is computed from numbers: ``torch.cumprod(1 - self.betas, 0)``."""
        if node is None or depth <= 0:
            return False
        if is_attribute_of_self(node):
            values = [item.value for item in self._forest.fact(HostTensors).held(node) if not item.path]
            tensors = [item for item in values if not self._is_parameter(item)]  # of the same numbers, to be trained
            return bool(tensors) and all(self._is_line(item, depth - 1) for item in tensors)
        if isinstance(node, cst.Name):
            given = self._forest.values.reaching.only(node)
            is_assigned = given is not None and given.kind is BindingKind.ASSIGN and not given.path
            return is_assigned and given is not None and self._is_line(given.value, depth - 1)
        if isinstance(node, cst.BinaryOperation):
            numbers = self._forest.fact(Numbers)
            sides = (node.left, node.right)
            tensors = [item for item in sides if not numbers.is_number(item) and not numbers.is_setting(item)]
            return bool(tensors) and all(self._is_line(item, depth - 1) for item in tensors)
        return isinstance(node, cst.Call) and self._makes_line(node, depth)

    def _is_parameter(self, node: cst.BaseExpression | None) -> bool:
        return isinstance(node, cst.Call) and self._forest.name_of(node.func) in PARAMETER

    def _makes_line(self, call: cst.Call, depth: int) -> bool:
        name = self._forest.name_of(call.func)
        given = [item.value for item in call.args if item.keyword is None and not item.star]
        if name in _LINES:
            return True
        if name in _SIZED:
            sizes = keyword(call, "size") or (given[0] if given else None)
            if isinstance(sizes, (cst.Tuple, cst.List)):
                return len(sizes.elements) == 1
            return name != "torch.full" and len(given) == 1 and self._forest.fact(Numbers).is_number(given[0])
        if called_name(call) not in _KEEPING:
            return False
        if name is not None:
            return name.startswith("torch.") and bool(given) and self._is_line(given[0], depth - 1)
        return isinstance(call.func, cst.Attribute) and self._is_line(call.func.value, depth - 1)
