"""Operations on tensors of a step whose output has a shape that only the GPU knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name, last_part
from torchlint.model.training.step_places import StepPlace, StepPlaces
from torchlint.source.lexemes import comments_in

from ._host_reads import HostReads
from ._step_tensors import StepTensors

#: Functions and methods, with what avoids the wait, if it is known.
_OPERATIONS = {
    "nonzero": "",
    "argwhere": "",
    "masked_select": "",
    "unique": "",
    "unique_consecutive": "",
    "bincount": "",
    "where": "",
    "one_hot": "num_classes",
    "repeat_interleave": "output_size",
}
#: How many calls lie between a step and an operation; behind more of them, tensors are often copied to the CPU.
_CALLS = 1
_FUNCTIONS = frozenset(f"torch.{name}" for name in _OPERATIONS) | {"torch.nn.functional.one_hot"}
#: Methods that numbers do not have.
_OF_TENSORS = ("view", "reshape", "flatten", "squeeze", "long", "int", "clamp")
_METHODS = frozenset(_OPERATIONS) - {"where", "one_hot"}


@dataclass(frozen=True, eq=False)
class DynamicShape:
    """An operation that waits for the GPU."""

    call: cst.Call
    name: str  #: ``nonzero``
    missing: str  #: the argument that gives the size; empty if there is none
    step: StepPlace


class DynamicShapes:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._reads = module.fact(HostReads)
        self._tensors = module.fact(StepTensors)

    def all(self) -> Iterator[DynamicShape]:
        """The operations of the file that run once per batch on the GPU, in order."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        for call in self._module.tree.calls_in(self._module.root):
            name, operand = self._operation(call)
            if operand is None or self._is_known(call):
                continue
            places = self._module.fact(StepPlaces)
            found = (step for step in (places.of(call), places.repeating(call)) if step is not None)
            step = next((step for step in found if len(step.calls) <= _CALLS), None)
            if step is not None and self._is_on_gpu(operand):
                yield DynamicShape(call, name, _OPERATIONS[name], step)

    def _is_known(self, call: cst.Call) -> bool:
        """Whether a comment in the row of ``call`` speaks of the wait: ``# the only sync``."""
        line = self._module.line(self._module.row(call))
        return any("sync" in comment.lower() for comment in comments_in(line))

    def _operation(self, call: cst.Call) -> tuple[str, cst.BaseExpression | None]:
        """The name of an operation, and the tensor that decides on the size of its output."""
        function = self._module.name_of(call.func)
        name = last_part(function) if function is not None else called_name(call)
        given = [item.value for item in call.args if item.keyword is None and not item.star]
        if function in _FUNCTIONS:
            operand = given[0] if given else None
        elif function is None and name in _METHODS and isinstance(call.func, cst.Attribute):
            operand, given = call.func.value, [call.func.value, *given]
        else:
            return name, None
        keywords = keywords_of(call).keys()
        if _OPERATIONS[name] in keywords or any(item.star for item in call.args):
            return name, None
        if name == "repeat_interleave":  # by a number for all items, or by a tensor
            counts = given[1] if len(given) > 1 else None
            is_tensor = isinstance(counts, cst.Call) and called_name(counts) in _OF_TENSORS
            operand = counts if is_tensor else None
        if name in ("one_hot", "where") and len(given) + len(keywords) > 1:
            return name, None
        return name, operand

    def _is_on_gpu(self, operand: cst.BaseExpression) -> bool:
        value = self._module.value(operand)
        return not value.is_on_host and (value.device is Device.CUDA or self._tensors.is_tensor_of_step(operand))
