"""Host reads: where a training step reads a number from the GPU, and must wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import bare, called_name, dotted_name, of_first_item
from torchlint.model.tensors.devices import Devices
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.evaluation import is_of_evaluation
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.host_training import HostTraining
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import is_backward
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.step_places import StepPlace, StepPlaces
from torchlint.model.training.steps import Steps
from torchlint.model.training.unused import Unused

from ._decisions import Decisions
from ._meters import Meters
from ._number_reads import reduction
from ._step_tensors import StepTensors

#: The maximum number of calls that a step is followed into, and of callers that a value is followed through.
_DEPTH = 2
#: Methods that copy a tensor to the CPU.
_COPYING = frozenset({"cpu", "numpy", "tolist"})
_MEASURING = re.compile(r"^(bench|profil)|_(bench|benchmark|profile|profiler)\.py$")
#: Calls in scripts that also run on a CPU.
_NO_EVIDENCE = frozenset(
    f"torch.cuda.{name}" for name in ("is_available", "manual_seed", "manual_seed_all", "device_count")
)


@dataclass(frozen=True, eq=False)
class HostRead:
    """A ``x.item()``, ``float(x)``, ``int(x)`` or ``loss.cpu().numpy()`` that runs at every training step."""

    call: cst.Call | cst.Subscript  #: a subscript is ``loss.data[0]``, of torch before 0.4
    tensor: cst.BaseExpression  #: the tensor that is read
    step: cst.CSTNode  #: the loop, or the function, that is the step
    decides: bool  #: whether the number controls the program, so that the read cannot be delayed

    @property
    def is_array(self) -> bool:
        """Whether the result is an array or a list."""
        func = self.call.func if isinstance(self.call, cst.Call) else None
        return isinstance(func, cst.Attribute) and func.attr.value in _COPYING


@dataclass(frozen=True, eq=False)
class WaitingStep:
    """A training step that waits for the GPU at one or more unnecessary reads."""

    node: cst.CSTNode  #: the outermost loop, or the function, that is the step
    reads: tuple[HostRead, ...]  #: those of the step itself precede those of the functions that it calls


class HostReads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._tensors = module.fact(StepTensors)
        self._passes: dict[cst.FunctionDef, bool] = {}

    @cached_property
    def steps(self) -> list[WaitingStep]:
        """The training steps that read numbers from the GPU which do not control the program, in order."""
        reads = [read for read in self._reads if not read.decides]
        nodes = sorted({read.step for read in reads}, key=self._tree.index)
        outermost = {node: next(step for step in nodes if self._tree.within(node, step)) for node in nodes}
        groups: dict[cst.CSTNode, list[HostRead]] = {}
        for read in reads:
            groups.setdefault(outermost[read.step], []).append(read)
        return [
            WaitingStep(step, tuple(sorted(group, key=lambda read: not self._tree.within(read.call, step))))
            for step, group in groups.items()
        ]

    @cached_property
    def _reads(self) -> list[HostRead]:
        """The reads, at every training step, of values from the network or the loss of the step, in order."""
        if self._measures(self._module.path) or not self._module.uses_torch:
            return []
        own = {call: tensor for call in self._tree.calls_in(self._module.root) if (tensor := self.read_by(call))}
        first = list(self._first_items)
        if not (own or first) or not self.on_gpu:
            return []
        if not first and not any(self._is_of_step(call, tensor) for call, tensor in own.items()):
            return []
        found: dict[cst.CSTNode, HostRead] = {}
        for item, loss in first:
            place = self.training_step(item)
            if place is not None:
                found[item] = HostRead(item, loss, place.step, self._decides(item, loss, place.step))
        for step in self._running(list(own)):
            for call in self._calls_at_every_iteration(step, step, _DEPTH, set()):
                tensor = self.read_by(call) if call not in found else None
                if tensor is not None and self._is_of_step(call, tensor):
                    found[call] = HostRead(call, tensor, step, self._decides(call, tensor, step))
        for call, tensor in own.items():
            if call in found or self._is_open_element(tensor) or not self._is_of_step(call, tensor):
                continue
            place = self.training_step(call)
            if place is not None:
                found[call] = HostRead(call, tensor, place.step, self._decides(call, tensor, place.step))
        on_host = self._module.fact(HostTraining).is_done_by
        kept = (read for read in found.values() if not on_host(read.step))
        return sorted(kept, key=lambda read: self._tree.index(read.call))

    def training_step(self, node: cst.CSTNode) -> StepPlace | None:
        """The training step that runs ``node`` every time; not a function that nothing in the project calls."""
        place = self._module.fact(StepPlaces).in_training(node)
        function = place.step if place is not None and isinstance(place.step, cst.FunctionDef) else None
        return place if function is None or self._module.fact(Unused).may_run(function) else None

    def _is_open_element(self, tensor: cst.BaseExpression) -> bool:
        """Whether a tensor is ``x[i]``, which is often of TL209, or ``x[0]`` of what callers may keep on the CPU.

        Also an item of a loop: ``i`` of ``for i in x: result.append(i.item())``.
        """
        if isinstance(tensor, cst.Name) and not self._tensors.is_named_loss(tensor):
            bound = self._module.values.reaching.only(tensor)
            return bound is not None and bound.kind is BindingKind.FOR and not bound.path
        if not isinstance(tensor, cst.Subscript):
            return False
        function = self._module.function_of(tensor)
        if function is None or not self._module.fact(StepPlaces).is_forward(function):
            return True
        return any(
            isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            for item in tensor.slice
            for node in self._tree.nodes_in(item)
        )

    @property
    def _first_items(self) -> Iterator[tuple[cst.Subscript, cst.BaseExpression]]:
        """``loss.data[0]`` and ``loss``: before torch 0.4, a loss had one item, and this was its ``item()``."""
        reduced = [node.value for node in self._tree.attributes_named("mean", "sum")]
        several = {(dotted_name(node), self._module.function_of(node)) for node in reduced}
        for data in self._tree.attributes_named("data"):
            item = self._tree.parent(data)
            loss = of_first_item(item) if isinstance(item, cst.Subscript) and self._module.is_own(item) else None
            if isinstance(item, cst.Subscript) and item.value is data and loss is not None:
                is_one = (dotted_name(loss), self._module.function_of(loss)) not in several
                if is_one and self._tensors.is_term(loss):
                    yield item, loss

    def _decides(self, call: cst.Call | cst.Subscript, tensor: cst.BaseExpression, step: cst.CSTNode) -> bool:
        """Whether the number that ``call`` reads, or that is computed from its copy, controls the step."""
        number = reduction(self._module, call) if isinstance(call, cst.Call) and self._is_copy(call) else None
        return self._module.fact(Decisions).at(number or call, tensor, step)

    def waits_otherwise(self, step: WaitingStep) -> bool:
        """Whether ``step`` also waits for the GPU without its reads: a number controls it, or a tensor is copied."""
        listed = {call for read in step.reads for call in self._tree.calls_in(read.call)}
        if any(read.decides and self._tree.within(read.call, step.node) for read in self._reads):
            return True
        return any(
            call not in listed and self._waits(call)
            for call in self._calls_at_every_iteration(step.node, step.node, _DEPTH, set(), or_often=True)
        )

    def _may_wait(self, call: cst.Call) -> bool:
        """Whether ``call`` copies something to the CPU, or reads a number, if that is a tensor."""
        return called_name(call) in _COPYING or self.read_by(call) is not None

    def _waits(self, call: cst.Call) -> bool:
        """Whether ``call`` copies a tensor of the step to the CPU, or reads a number that may be on the GPU."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if isinstance(call.func, cst.Attribute) and method in _COPYING:
            return self._tensors.is_tensor_of_step(call.func.value)
        tensor = self.read_by(call)
        if tensor is None or method != "item":
            return tensor is not None and self._tensors.is_tensor_of_step(tensor)
        value = self._module.value(tensor)
        if value.role is Role.BATCH and value.device is None:
            return False  # it came from the CPU
        return not value.is_on_host

    @cached_property
    def on_gpu(self) -> bool:
        """Whether the file uses a GPU, or leaves the choice of the device to others."""
        module = self._module
        if module.fact(Devices).uses_cuda or module.fact(Devices).uses_trainer or module.imports("torch.cuda"):
            return True
        for node in self._tree.attributes:
            name = module.name_of(node) or ""
            if name.startswith("torch.cuda.") and name not in _NO_EVIDENCE:
                return True
        if any(map(self._needs_host, self._tree.calls_named("numpy"))):
            return False
        return any(move.device is not Device.CPU for move in module.fact(Placement).moves) or any(
            module.fact(Placement).is_device(item.value) and device_of(item.value, module.values) is not Device.CPU
            for item in self._tree.keywords.get("device", ())
        )

    def _needs_host(self, call: cst.Call) -> bool:
        """Whether ``call`` is ``outputs.detach().numpy()`` of the file, which fails on a GPU."""
        detached = call.func.value if isinstance(call.func, cst.Attribute) and self._module.is_own(call) else None
        if isinstance(detached, cst.Call):
            is_detached = called_name(detached) == "detach"
            detached = detached.func.value if is_detached and isinstance(detached.func, cst.Attribute) else None
        elif isinstance(detached, cst.Attribute):
            detached = detached.value if detached.attr.value == "data" else None
        return isinstance(detached, cst.Name) and self._tensors.is_tensor_of_step(detached)

    def _measures(self, path: str) -> bool:
        """Whether the purpose of a file is timing, so that it synchronizes deliberately."""
        return bool(_MEASURING.search(path.replace("\\", "/").rpartition("/")[2]))

    # -- what runs at every iteration

    def _running(self, reads: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The steps that may run one of some calls, directly or in a function that they call."""
        places = dict.fromkeys(reads)
        latest: Iterable[cst.CSTNode] = reads
        for _ in range(_DEPTH):
            functions = dict.fromkeys(function for call in latest for function in self._module.functions_around(call))
            callers = (caller for function in functions for caller in self._module.fact(Dispatch).callers(function))
            latest = [caller for caller in callers if caller not in places]
            places |= dict.fromkeys(latest)
        for step in self._module.fact(Steps).places if places else ():
            if any(self._tree.within(place, step) for place in places):
                yield step

    def _calls_at_every_iteration(
        self, body: cst.CSTNode, step: cst.CSTNode, depth: int, seen: set[cst.CSTNode], *, or_often: bool = False
    ) -> Iterator[cst.Call]:
        """The calls in ``body`` that may wait and run at every iteration, then those in functions that it calls."""
        seen.add(body)
        inner = body.body if isinstance(body, (cst.For, cst.While, cst.FunctionDef)) else body
        for call in self._tree.calls_in(inner):
            run = self._module.fact(Dispatch).run(call) if depth > 0 else ()
            may_wait = self._may_wait(call)
            if not (run or may_wait) or not self._module.fact(Iterations).at_every_iteration(
                call, body, or_often=or_often
            ):
                continue
            if body is step and self._module.fact(StepPlaces).only_evaluates(call, step):
                continue
            if is_of_evaluation(self._module, call):
                continue
            if may_wait:
                yield call
            for function in run:
                if function not in seen and (
                    self._is_pass(function) or self._feeds(call) or self._computes_loss(function, call)
                ):
                    inside = self._calls_at_every_iteration(function, step, depth - 1, seen, or_often=or_often)
                    yield from (
                        inner for inner in inside if not self._module.values.branches.excludes(call, function, inner)
                    )

    def _feeds(self, call: cst.Call) -> bool:
        """Whether ``call`` passes on something of the step: a metric of outputs, not a pass over other data."""
        return any(self._tensors.is_tensor_of_step(argument.value) for argument in call.args)

    def _computes_loss(self, function: cst.FunctionDef, call: cst.Call) -> bool:
        """Whether ``function`` reads a number, and its result for ``call`` reaches a backward pass."""
        reads = any(self.read_by(inner) is not None for inner in self._tree.calls_in(function.body))
        return reads and self._module.fact(Gradients).reaches_backward(call)

    def _is_pass(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is part of the step: it runs a backward pass, itself or in a function that it calls."""
        known = self._passes.get(function)
        if known is None:
            calls = self._tree.calls_in(function.body)
            below = (inner.body for call in calls for inner in self._module.fact(Dispatch).run(call))
            known = self._passes[function] = any(map(is_backward, calls)) or any(
                any(map(is_backward, self._tree.calls_in(body))) for body in below
            )
        return known

    # -- what is read

    def read_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """The tensor that ``call`` reads a number from: ``x`` of ``x.detach().item()``; None if it is not a read."""
        func = call.func
        if type(func) is cst.Attribute and func.attr.value == "item":
            return bare(func.value)
        if self._is_copy(call) and (reduction(self._module, call) is not None or self._is_added_up(call)):
            return bare(call)
        if type(func) is cst.Attribute and func.attr.value in ("numpy", "tolist") and not call.args:
            tensor = bare(func.value)
            return tensor if tensor is not func.value and self._tensors.is_scalar(tensor) else None
        if self._module.name_of(func) in ("builtins.float", "builtins.int") and len(call.args) == 1:
            given = call.args[0]
            if given.keyword is None and not given.star:
                value = given.value
                if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and not value.args:
                    value = value.func.value if value.func.attr.value == "numpy" else value  # an array of one number
                return bare(value)
        return None

    def _is_copy(self, call: cst.Call) -> bool:
        """``x.cpu()``."""
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == "cpu" and not call.args

    def _is_added_up(self, copy: cst.Call) -> bool:
        """``total += loss.detach().cpu()``, also with a weight, also by a meter: of a single number."""
        if self._module.fact(Meters).averages(copy):
            return True
        above = self._tree.parent(copy)
        if isinstance(above, cst.BinaryOperation) and isinstance(above.operator, (cst.Multiply, cst.Divide)):
            above = self._tree.parent(above)
        is_sum = isinstance(above, cst.AugAssign) and isinstance(above.operator, cst.AddAssign)
        return is_sum and self._tensors.is_scalar(bare(copy))

    def _is_copied(self, node: cst.BaseExpression) -> bool:
        """``x.cpu().numpy()`` or ``x.detach()``, which only tensors have."""
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if self._is_copy(node) or node.func.attr.value == "detach":
                return True
            node = node.func.value
        return False

    def _is_of_step(self, call: cst.Call, tensor: cst.BaseExpression) -> bool:
        if self._tensors.is_named_loss(tensor):
            return True
        value = self._module.value(tensor)
        if isinstance(call.func, cst.Attribute):  # a number has no `item()`, an array has
            return self._tensors.is_term(tensor) or (
                value.kind is not Kind.ARRAY and self._tensors.is_tensor_of_step(tensor)
            )
        # `float(x)` may also read a text or a number: `x` must certainly be a tensor
        is_part = self._tensors.is_term(tensor) and value.role in (Role.OUTPUT, Role.LOSS)
        is_tensor = value.kind is Kind.TENSOR and (value.sure or is_part)
        if not (is_tensor or self._is_copied(call.args[0].value) or self._tensors.is_loss(tensor)):
            if not self._is_tensor_by_form(tensor):
                return False
        return self._tensors.is_tensor_of_step(tensor)

    def _is_tensor_by_form(self, node: cst.BaseExpression) -> bool:
        """``outputs.topk(5, dim=1).indices.eq(labels).sum()``: of outputs of a network."""
        runs = self._module.fact(Outputs).runs
        return self._module.fact(TensorForms).is_tensor(
            node,
            lambda name: (
                any(
                    not item.path and isinstance(item.value, cst.Call) and runs(item.value)
                    for item in self._module.values.reaching.of(name)
                )
                or self._tensors.is_asked(name)
            ),
        )
