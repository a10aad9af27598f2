"""Calls that wait for all work of the GPU at every step, where nothing is timed or shared with another stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.moves import moved_to
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import keyword
from torchlint.model.training.function_words import measuring
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlace, StepPlaces

_WAITS = tuple(
    f"torch.{name}.synchronize" for name in ("cuda", "accelerator", "mps", "xpu", "npu", "mlu", "musa", "hpu")
)
_STREAMS = frozenset({"torch.cuda.current_stream", "torch.cuda.default_stream", "torch.accelerator.current_stream"})
#: What a program that runs work of its own on several streams, in graphs or in other libraries calls or imports.
_CONCURRENT = (
    "torch.cuda.Stream",
    "torch.cuda.ExternalStream",
    "torch.cuda.stream",
    "torch.cuda.CUDAGraph",
    "torch.cuda.graph",
    "torch.cuda.make_graphed_callables",
    "torch.Stream",
)
_OTHER_LIBRARIES = ("pycuda", "tensorrt", "cupy", "numba", "warp", "taichi", "cuda", "multiprocessing")
#: What of them passes on nothing that is on the GPU while it is computed.
_HOST_ONLY = frozenset({"multiprocessing.Pool", "multiprocessing.pool", "multiprocessing.cpu_count"})
#: Names of timers, clocks and meters of speed and memory; `timesteps` and `times` are none.
_TIMES = re.compile(
    r"time(?!_?steps?|s\b|embed)|clock|(^|_)(tic|toc|iter_toc|fps|tps)\b|elapsed|latency|(?<!deep)speed|throughput|bench|profil|"
    r"perf_counter|stopwatch|record|flops|power|energy_meter|memory_(stats|allocated|reserved)|peak_(memory|stats)",
    re.IGNORECASE,
)
#: Names of functions and classes that wait on purpose, or where the work of a step is not all of one stream.
_PURPOSES = measuring(
    r"tim(e|er|ing)s?(_|$)|warm|debug|capture|graph|offload|prefetch|swap|sync|_wait|^wait|allreduce|all_reduce"
)
#: Methods that hand data to another process or thread.
_HANDS_OVER = frozenset({"put", "put_nowait", "send", "send_bytes", "share_memory_", "submit", "isend", "irecv"})


@dataclass(frozen=True, eq=False)
class DeviceWait:
    """A call that waits until the GPU has finished, at every step."""

    call: cst.Call
    step: StepPlace


class DeviceWaits:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._needed: dict[cst.CSTNode, bool] = {}

    def all(self) -> Iterator[DeviceWait]:
        """The waits of the file that no step needs, in order."""
        for call in self._calls:
            if self._module.fact(Purposes).is_test(call) or self._is_for_a_purpose(call):
                continue
            step = self._step(call)
            if step is not None and not self._is_concurrent and not any(map(self._needs_wait, self._parts(call, step))):
                yield DeviceWait(call, step)

    @cached_property
    def _calls(self) -> Sequence[cst.Call]:
        found = [call.node for call in self._module.own_calls(*_WAITS)]
        methods = self._module.own_methods("synchronize")
        found += [call.node for call in methods if self._is_current_stream(call.receiver)]
        return sorted(found, key=self._tree.index)

    def _is_current_stream(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is ``torch.cuda.current_stream()``."""
        return isinstance(node, cst.Call) and self._module.name_of(node.func) in _STREAMS

    def _step(self, call: cst.Call) -> StepPlace | None:
        places = self._module.fact(StepPlaces)
        found = places.of(call, places.always, trained=True) or places.of(call, places.always)
        return None if found is None or any(map(self._is_for_a_purpose, found.calls)) else found

    def _parts(self, call: cst.Call, step: StepPlace) -> Iterator[cst.CSTNode]:
        """The step, and the functions that lead from there to the wait."""
        yield from self._around(step)
        if step.calls:
            for inner in (*step.calls[1:], call):
                function = self._module.function_of(inner)
                if function is not None:
                    yield function

    def _around(self, step: StepPlace) -> Iterator[cst.CSTNode]:
        """The body of a training loop, that of its generator, and what it is entered with.

        Of another loop, all of its function.
        """
        if not isinstance(step.step, (cst.For, cst.While)):
            yield step.step
            return
        yield step.step.body
        yield from self._generating_loops(step.step)
        if not step.trains:
            yield self._module.function_of(step.step) or step.step
        for above in self._tree.ancestors(step.step):
            if isinstance(above, cst.With):
                yield from above.items

    def _generating_loops(self, loop: cst.For | cst.While) -> Iterator[cst.CSTNode]:
        """The loops in generators of the program that a loop iterates over: ``logger.log_every(loader)``."""
        for over, _ in iterables(self._module.names, loop.iter, ()) if isinstance(loop, cst.For) else ():
            called = self._module.definitions.called(over, self._module.values) if isinstance(over, cst.Call) else ()
            for function in called:
                for item in self._module.definitions.yields(function) if isinstance(function, cst.FunctionDef) else ():
                    yield from (around.node.body for around in self._module.fact(Loops).around(item))

    def _is_for_a_purpose(self, node: cst.CSTNode) -> bool:
        """Whether a function or class around ``node`` is named for what needs the wait."""
        return any(
            isinstance(above, (cst.FunctionDef, cst.ClassDef)) and _PURPOSES.search(above.name.value)
            for above in self._tree.ancestors(node)
        )

    @cached_property
    def _is_concurrent(self) -> bool:
        """Whether the program queues work elsewhere than on the current stream."""
        return any(self._module.calls(*_CONCURRENT)) or any(
            name.partition(".")[0] in _OTHER_LIBRARIES or name.startswith("torch.multiprocessing")
            for name in self._module.own_imported_names - _HOST_ONLY
        )

    def _needs_wait(self, part: cst.CSTNode) -> bool:
        """Whether code reads a clock, copies to the host without waiting, or hands data to another process."""
        known = self._needed.get(part)
        if known is None:
            known = self._needed[part] = any(map(self._names_time, self._tree.nodes_in(part))) or any(
                self._is_pending(call) for call in self._tree.calls_in(part)
            )
        return known

    def _names_time(self, node: cst.CSTNode) -> bool:
        name = node.value if isinstance(node, cst.Name) else node.attr.value if isinstance(node, cst.Attribute) else ""
        return _TIMES.search(name) is not None

    def _is_pending(self, call: cst.Call) -> bool:
        """Whether what ``call`` starts may end after the call, for others than the GPU."""
        if not isinstance(call.func, cst.Attribute):
            return False
        if call.func.attr.value in _HANDS_OVER or keyword(call, "async_op") is not None:
            return True
        waits = keyword(call, "non_blocking")
        if waits is None:
            return False
        return call.func.attr.value == "copy_" or moved_to(call, self._module.values) is Device.CPU
