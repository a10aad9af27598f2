"""Host reads: where a training step reads a number from the GPU, and must wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.devices import Devices
from torchlint.model.data.placement import Placement
from torchlint.model.module import Module
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of, keyword
from torchlint.model.semantics.value import Device, Role, Value
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.data_flow import DataFlow, Search
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import BACKWARD, is_backward
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.steps import Steps

from ._decisions import Decisions

#: The maximum number of calls that a step is followed into, and of callers that a value is followed through.
_DEPTH = 2
#: The maximum number of expressions that a value is followed through.
_VALUE_DEPTH = 12
#: Calls and attributes that take a value off the device: the result is a number, an array, or a CPU tensor.
_EXITS = frozenset({"item", "tolist", "numpy", "cpu", "size", "dim", "numel", "nelement"})
_SHAPES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda"})
#: Methods that copy a tensor to the CPU.
_COPYING = frozenset({"cpu", "numpy", "tolist"})
#: Methods and attributes between a tensor and its ``item()`` that are part of the read.
_OF_THE_READ = frozenset({"detach", "cpu", "data", "clone"})
_NUMBERS = frozenset(
    f"builtins.{name}" for name in "float int len str bool round isinstance range type id getattr hasattr".split()
)
_MEASURING = re.compile(r"^(bench|profil)|_(bench|benchmark|profile|profiler)\.py$")
#: Calls in scripts that also run on a CPU.
_NO_EVIDENCE = frozenset(
    f"torch.cuda.{name}" for name in ("is_available", "manual_seed", "manual_seed_all", "device_count")
)


@dataclass(frozen=True, eq=False)
class HostRead:
    """A ``x.item()``, ``float(x)``, ``int(x)`` or ``loss.cpu().numpy()`` that runs at every training step."""

    call: cst.Call
    tensor: cst.BaseExpression  #: the tensor that is read
    step: cst.CSTNode  #: the loop, or the function, that is the step
    decides: bool  #: whether the number controls the program, so that the read cannot be delayed

    @property
    def is_array(self) -> bool:
        """Whether the result is an array or a list."""
        return isinstance(self.call.func, cst.Attribute) and self.call.func.attr.value in _COPYING


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
        if self._measures(self._module.path) or not self.on_gpu or not self._module.uses_torch:
            return []
        found: dict[cst.CSTNode, HostRead] = {}
        for step in self._module.fact(Steps).places:
            for call in self._calls_at_every_iteration(step, step, _DEPTH, set()):
                tensor = self.read_by(call)
                if tensor is None or call in found:
                    continue
                if self._is_of_step(call, tensor):
                    found[call] = HostRead(call, tensor, step, self._module.fact(Decisions).at(call, tensor, step))
        return sorted(found.values(), key=lambda read: self._tree.index(read.call))

    def waits_otherwise(self, step: WaitingStep) -> bool:
        """Whether ``step`` also waits for the GPU without its reads: a number controls it, or a tensor is copied."""
        listed = [read.call for read in step.reads]
        if any(read.decides and self._tree.within(read.call, step.node) for read in self._reads):
            return True
        return any(
            not any(self._tree.within(call, read) for read in listed) and self._waits(call)
            for call in self._calls_at_every_iteration(step.node, step.node, _DEPTH, set(), or_often=True)
        )

    def _waits(self, call: cst.Call) -> bool:
        """Whether ``call`` copies a tensor of the step to the CPU, or reads a number that may be on the GPU."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if isinstance(call.func, cst.Attribute) and method in _COPYING:
            return self.is_tensor_of_step(call.func.value)
        tensor = self.read_by(call)
        if tensor is None or method != "item":
            return tensor is not None and self.is_tensor_of_step(tensor)
        value = self._module.value(tensor)
        if value.role is Role.BATCH and value.device is None:
            return False  # it came from the CPU
        return value.device is not Device.CPU and not (value.sure and value.kind in (Kind.NUMBER, Kind.ARRAY))

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
        return any(move.device is not Device.CPU for move in module.fact(Placement).moves) or any(
            module.fact(Placement).is_device(item.value) and device_of(item.value, module.values) is not Device.CPU
            for item in self._tree.keywords.get("device", ())
        )

    def _measures(self, path: str) -> bool:
        """Whether the purpose of a file is timing, so that it synchronizes deliberately."""
        return bool(_MEASURING.search(path.replace("\\", "/").rpartition("/")[2]))

    # -- what runs at every iteration

    def _calls_at_every_iteration(
        self, body: cst.CSTNode, step: cst.CSTNode, depth: int, seen: set[cst.CSTNode], *, or_often: bool = False
    ) -> Iterator[cst.Call]:
        """The calls in ``body`` that run at every iteration, then those in functions of the file that they call."""
        seen.add(body)
        inner = body.body if isinstance(body, (cst.For, cst.While, cst.FunctionDef)) else body
        for call in self._tree.calls_in(inner):
            if not self._module.fact(Iterations).at_every_iteration(call, body, or_often=or_often):
                continue
            yield call
            if depth <= 0:
                continue
            for function in self._module.fact(Dispatch).run(call):
                if function not in seen and (
                    self._is_pass(function) or self._feeds(call) or self._computes_loss(function, call)
                ):
                    yield from self._calls_at_every_iteration(function, step, depth - 1, seen, or_often=or_often)

    def _feeds(self, call: cst.Call) -> bool:
        """Whether ``call`` passes on something of the step: a metric of outputs, not a pass over other data."""
        return any(self.is_tensor_of_step(argument.value) for argument in call.args)

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
            return self._bare(func.value)
        if type(func) is cst.Attribute and func.attr.value in ("numpy", "tolist") and not call.args:
            bare = self._bare(func.value)
            return bare if bare is not func.value and self._is_scalar(bare) else None
        if self._module.name_of(func) in ("builtins.float", "builtins.int") and len(call.args) == 1:
            given = call.args[0]
            if given.keyword is None and not given.star:
                value = given.value
                if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and not value.args:
                    value = value.func.value if value.func.attr.value == "numpy" else value  # an array of one number
                return self._bare(value)
        return None

    def _bare(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``node`` without the ``detach()``, ``cpu()`` and ``data`` at its end."""
        while True:
            if isinstance(node, cst.Attribute) and node.attr.value == "data":
                node = node.value
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
                if node.func.attr.value not in _OF_THE_READ:
                    return node
                node = node.func.value
            else:
                return node

    def _is_of_step(self, call: cst.Call, tensor: cst.BaseExpression) -> bool:
        value = self._module.value(tensor)
        if isinstance(call.func, cst.Attribute):  # a number has no `item()`, an array has
            return self._is_term(tensor) or (value.kind is not Kind.ARRAY and self.is_tensor_of_step(tensor))
        # `float(x)` may also read a text or a number: `x` must certainly be a tensor
        is_part = self._is_term(tensor) and value.role in (Role.OUTPUT, Role.LOSS)
        if not self.is_loss(tensor) and not (value.kind is Kind.TENSOR and (value.sure or is_part)):
            return False
        return self.is_tensor_of_step(tensor)

    def is_tensor_of_step(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is computed on the device from an output of a network, a loss or a moved batch."""
        return self._search.finds(node)

    @cached_property
    def _search(self) -> Search:
        flow = self._module.fact(DataFlow)
        return flow.search(self._is_source, self._leaves_device, outward=True, depth=_VALUE_DEPTH)

    def _leaves_device(self, part: cst.CSTNode) -> bool:
        """Whether the value of ``part`` is on the CPU, or is part of a batch that no network has processed."""
        if type(part) is cst.Call:
            if isinstance(part.func, cst.Attribute) and part.func.attr.value in _EXITS:
                return True
            name = self._module.name_of(part.func) or ""
            return (
                name in _NUMBERS
                or name.startswith(("numpy.", "math.", "sklearn."))
                or self._is_on_host(self._module.value(part))
            )
        if type(part) is cst.Attribute:
            return part.attr.value in _SHAPES
        if type(part) is cst.Name:
            value = self._module.value(part)
            if value.kind is Kind.BATCH:
                return True  # it came from the CPU
            return self._is_on_host(value) or (value.sure and value.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY))
        return type(part) is cst.Lambda

    def _is_on_host(self, value: Value) -> bool:
        """Whether a value is a tensor on the CPU for certain: ``torch.zeros(10)`` that is filled there."""
        if not value.sure or value.kind is not Kind.TENSOR or value.device is not Device.CPU:
            return False
        return bool(value.origins) and all(
            isinstance(made, cst.Call) and keyword(made, "device") is None for made in value.origins
        )

    def _is_source(self, part: cst.CSTNode) -> bool:
        if type(part) is cst.Call:
            if self._module.fact(Outputs).runs(part):
                return True
            value = self._module.value(part)
            if value.role is Role.BATCH:
                return value.kind is Kind.TENSOR and value.device is Device.CUDA  # a part that was moved
            return (
                value.kind is Kind.TENSOR and value.role in (Role.OUTPUT, Role.LOSS) and value.device is not Device.CPU
            )
        return (type(part) is cst.Name or type(part) is cst.Attribute) and self._is_term(part)

    def is_loss(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass of the function around ``node`` starts from the name ``node``."""
        return (dotted_name(node), self._module.function_of(node)) in self._losses

    def _is_scalar(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass starts from the name ``node`` itself, which is a single number then."""
        return (dotted_name(node), self._module.function_of(node)) in self._scalars

    @cached_property
    def _scalars(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        roots = [
            call.func.value
            for call in self._tree.calls_named(*BACKWARD)
            if is_backward(call) and not call.args and isinstance(call.func, cst.Attribute)
        ]
        return {(dotted_name(root), self._module.function_of(root)) for root in roots if dotted_name(root)}

    def _is_term(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is a name that is added to such a loss."""
        return (dotted_name(node), self._module.function_of(node)) in self._terms

    @cached_property
    def _backward_roots(self) -> list[cst.CSTNode]:
        """The names that the backward passes of the file start from."""
        return [
            part
            for call in self._tree.calls_named(*BACKWARD)
            if is_backward(call) and isinstance(call.func, cst.Attribute)
            for root in (call.func.value, *(item.value for item in call.args[:1] if item.keyword is None))
            for part in self._added(root)
        ]

    @cached_property
    def _losses(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        return {(dotted_name(part), self._module.function_of(part)) for part in self._backward_roots}

    @cached_property
    def _terms(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        waiting = list(self._backward_roots)
        found: dict[cst.CSTNode, None] = {}
        while waiting:
            part = waiting.pop()
            if part not in found:
                found[part] = None
                for source, _ in self._module.fact(DataFlow).sources(part):
                    waiting.extend(self._added(source))
        return {(dotted_name(part), self._module.function_of(part)) for part in found}

    def _added(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The names that ``node`` adds up: ``a`` and ``b`` of ``(a + 2 * b) / n``, ``a`` of ``scaler.scale(a)``."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return [node] if dotted_name(node) is not None else []
        if isinstance(node, cst.BinaryOperation):
            left = self._added(node.left)
            return left if isinstance(node.operator, cst.Divide) else left + self._added(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self._added(node.expression)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("scale", "scale_loss") and node.args:
                return self._added(node.args[0].value)
            if node.func.attr.value in ("mean", "sum", "squeeze"):
                return self._added(node.func.value)
        return []
