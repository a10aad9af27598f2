"""Tests of Python control flow that ask for the value of a tensor on the GPU at every training step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._host_reads import HostReads

#: Methods of a tensor that give a tensor of one element, or one to compare.
_REDUCING = frozenset("all any sum max min mean norm prod amax amin isnan isinf isfinite std var count_nonzero".split())
#: Methods of a tensor that give a tensor.
_KEEPING = frozenset(
    "abs argmax argmin bool clamp clone contiguous detach double eq exp flatten float ge gt half int le log long lt ne "
    "pow reshape sigmoid softmax square sqrt squeeze t to transpose unsqueeze view".split()
)
#: Functions of torch that give no tensor on the device.
_PLAIN = frozenset(
    f"torch.{name}"
    for name in ("is_tensor", "numel", "typename", "is_floating_point", "is_grad_enabled", "load", "device")
)
#: ... and functions that read tensors themselves to give a bool.
_ASKING = frozenset({"torch.equal", "torch.allclose", "builtins.bool", "math.isnan", "math.isinf", "math.isfinite"})
_ORDER = (
    cst.LessThan,
    cst.LessThanEqual,
    cst.GreaterThan,
    cst.GreaterThanEqual,
    cst.Equal,
    cst.NotEqual,
)
_DEPTH = 8


@dataclass(frozen=True, eq=False)
class TruthTest:
    """A part of a test whose truth depends on a tensor."""

    node: cst.BaseExpression
    statement: cst.CSTNode  #: the ``if``, ``while`` or ``assert``
    step: StepPlace


class TruthTests:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._reads = module.fact(HostReads)

    def all(self) -> Iterator[TruthTest]:
        """The tests of the file that wait for the GPU at every training step, in order."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        for statement in self._tree.nodes_in(self._module.root):
            if not isinstance(statement, (cst.If, cst.While, cst.Assert, cst.IfExp)):
                continue
            found = next((part for part in self._parts(statement.test) if self._asks_tensor(part)), None)
            if found is None:
                continue
            step = self._module.fact(StepPlaces).of(statement, trained=True)
            if step is not None and self._is_of_step(found):
                yield TruthTest(found, statement, step)

    def _parts(self, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What ``test`` evaluates every time; behind ``and`` only what follows a question for a type."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            yield from self._parts(test.expression)
        elif isinstance(test, cst.BooleanOperation):
            yield from self._parts(test.left)
            if isinstance(test.operator, cst.Or) or self._asks_for_none(test.left):
                yield from self._parts(test.right)
        else:
            yield test

    def _asks_for_none(self, test: cst.BaseExpression) -> bool:
        """``x is not None``, ``isinstance(x, torch.Tensor)``."""
        if isinstance(test, cst.Call):
            return self._module.name_of(test.func) in ("builtins.isinstance", "torch.is_tensor")
        return isinstance(test, cst.Comparison) and all(
            isinstance(item.operator, (cst.Is, cst.IsNot)) for item in test.comparisons
        )

    # -- tensors

    def _asks_tensor(self, part: cst.BaseExpression) -> bool:
        """Whether the truth of ``part`` is the value of a tensor, as far as its form tells."""
        return any(self._is_tensor(side, _DEPTH) for side in self._sides(part))

    def _is_of_step(self, part: cst.BaseExpression) -> bool:
        """Whether a tensor that ``part`` asks for is computed on the GPU in the step."""
        return any(
            self._is_tensor(side, _DEPTH) and self._reads.is_tensor_of_step(side) and not self._is_on_host(side)
            for side in self._sides(part)
        )

    def _is_on_host(self, node: cst.BaseExpression) -> bool:
        value = self._module.value(node)
        return value.device is Device.CPU or (value.sure and value.kind in (Kind.NUMBER, Kind.ARRAY, Kind.STRING))

    def _sides(self, part: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The expressions whose value decides: both sides of a comparison, the argument of ``bool``."""
        if isinstance(part, cst.Comparison):
            if len(part.comparisons) != 1 or not isinstance(part.comparisons[0].operator, _ORDER):
                return []
            return [part.left, part.comparisons[0].comparator]
        if isinstance(part, cst.Call) and self._module.name_of(part.func) in _ASKING:
            return [item.value for item in part.args if item.keyword is None and not item.star]
        return [part] if isinstance(part, cst.Call) else []

    def _is_tensor(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node`` can only be a tensor, in a program that computes on tensors."""
        if depth <= 0:
            return False
        if isinstance(node, cst.Name):
            return self._reads.is_loss(node) or self._is_bound_to_tensor(node, depth)
        if isinstance(node, cst.BinaryOperation):
            return self._is_tensor(node.left, depth - 1) or self._is_tensor(node.right, depth - 1)
        if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            return self._is_tensor(node.expression, depth - 1)
        if isinstance(node, cst.Comparison):
            return any(self._is_tensor(side, depth - 1) for side in self._sides(node))
        if isinstance(node, cst.Subscript):
            return self._is_tensor(node.value, depth - 1)
        if isinstance(node, cst.Attribute):
            return node.attr.value in ("data", "T") and self._is_tensor(node.value, depth - 1)
        return isinstance(node, cst.Call) and self._gives_tensor(node, depth)

    def _gives_tensor(self, call: cst.Call, depth: int) -> bool:
        name = self._module.name_of(call.func)
        if name is not None:
            parts = name.split(".")
            is_function = len(parts) == 2 or name.startswith("torch.nn.functional.")
            return parts[0] == "torch" and is_function and name not in _PLAIN | _ASKING and parts[-1].islower()
        value = self._module.value(call)
        if value.kind is Kind.TENSOR and value.sure:
            return True
        func = call.func
        if not isinstance(func, cst.Attribute) or self._module.definitions.called(call, self._module.values):
            return False
        if func.attr.value in _REDUCING and not isinstance(func.value, cst.Call):
            if self._is_tensor(func.value, depth - 1):
                return True  # of a comparison as well, which may be taken for a bool
            owner = self._module.value(func.value)
            return owner.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.BATCH)
        if func.attr.value not in _REDUCING | _KEEPING:
            return False
        return self._is_tensor(func.value, depth - 1) or self._is_given(func.value)

    def _is_given(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a parameter for which a step passes a tensor."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        return bool(reached) and all(item.kind == "param" for item in reached) and self._reads.is_tensor_of_step(node)

    def _is_bound_to_tensor(self, node: cst.Name, depth: int) -> bool:
        reached = self._module.values.reaching.of(node)
        return bool(reached) and all(
            item.kind == "assign"
            and not item.path
            and item.value is not None
            and (self._is_tensor(item.value, depth - 1) or self._runs(item.value))
            for item in reached
        )

    def _runs(self, node: cst.CSTNode) -> bool:
        """``loss = criterion(...)``."""
        return isinstance(node, cst.Call) and (
            self._module.value(node.func).kind is Kind.LOSS or self._module.fact(Outputs).runs(node)
        )
