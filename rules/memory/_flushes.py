"""Calls that empty the cache of an allocator or run the garbage collector at every step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.device_tests import asks_for_device
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import Loops, is_backward, is_step
from torchlint.model.training.network_loops import NetworkLoops
from torchlint.model.training.networks import Networks
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._flush_sketch import PURPOSES

_CACHES = frozenset(
    f"torch.{name}.empty_cache" for name in ("cuda", "cuda.memory", "mps", "xpu", "npu", "mlu", "accelerator.memory")
) | {"torch.accelerator.empty_cache"}
COLLECTOR = "gc.collect"
#: Loops and comprehensions.
_REPEATING = (cst.For, cst.While, cst.GeneratorExp, cst.ListComp, cst.SetComp)
#: What else a function may do that only flushes.
_ALONGSIDE = re.compile(r"torch\.\w+\.(synchronize|ipc_collect|reset_\w*stats)|builtins\.print|gc\.(collect|get_count)")
#: What an option is called that saves memory.
_SAVING = re.compile(r"cache|mem|offload|oom|vram|gpu_poor", re.IGNORECASE)
#: Iterables with few items, each with a program of its own.
_FEW = re.compile(
    r"\[.*\]|\(.*\)|range\(\s*\d{1,2}\s*\)|.*(configs?|models?|checkpoints?|ckpts?|folds?|seeds?)", re.DOTALL
)


@dataclass(frozen=True, eq=False)
class Flush:
    """A flush that a step does every time."""

    call: cst.Call  #: the flush; or the call, in the step, of a function that does nothing else
    name: str  #: how it reads: ``torch.cuda.empty_cache()``
    step: StepPlace

    @property
    def collects(self) -> bool:
        """Whether it runs Python's garbage collector."""
        return self.name == COLLECTOR


class Flushes:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._first_ends: dict[cst.CSTNode, float] = {}
        self._handling: dict[cst.CSTNode, bool] = {}

    def all(self) -> Iterator[Flush]:
        """The flushes of the file that a step does every time, in order."""
        found = [*self._direct(), *self._by_helpers()]
        yield from sorted(found, key=lambda flush: self._tree.index(flush.call))

    def _direct(self) -> Iterator[Flush]:
        for call in self._module.own_calls(*_CACHES, COLLECTOR):
            if call.name == COLLECTOR and self._manages_collector:
                continue
            function = self._module.function_of(call.node)
            if function not in self._helpers:
                step = self._step(call.node)
                if step is not None:
                    yield Flush(call.node, call.name, step)

    def _by_helpers(self) -> Iterator[Flush]:
        for function in self._helpers:
            for call in self._module.fact(Dispatch).callers(function):
                if self._module.is_own(call):
                    step = self._step(call)
                    if step is not None:
                        yield Flush(call, self._module.code(call.func), step)

    @cached_property
    def _manages_collector(self) -> bool:
        """Whether the program turns the garbage collector off, and so must run it itself."""
        return any(self._module.forest.calls("gc.disable", "gc.freeze", "gc.set_threshold"))

    @cached_property
    def _helpers(self) -> frozenset[cst.FunctionDef]:
        """The functions that do nothing but flush."""
        places = [self._module.function_of(call.node) for call in self._module.calls(*_CACHES, COLLECTOR)]
        return frozenset(item for item in places if item is not None and self._only_flushes(item.body.body))

    def _only_flushes(self, statements: Sequence[cst.CSTNode]) -> bool:
        return all(map(self._is_flush, statements))

    def _is_flush(self, statement: cst.CSTNode) -> bool:
        """Whether a statement flushes, or does nothing that a program needs."""
        if isinstance(statement, cst.If):
            parts = [statement.body, *((statement.orelse,) if statement.orelse is not None else ())]
            return asks_for_device(self._module, statement.test) and all(map(self._is_flush, parts))
        if isinstance(statement, cst.Else):
            return self._is_flush(statement.body)
        if isinstance(statement, (cst.SimpleStatementLine, cst.IndentedBlock, cst.SimpleStatementSuite)):
            return self._only_flushes(statement.body)
        if isinstance(statement, cst.Expr):
            if isinstance(statement.value, (cst.SimpleString, cst.ConcatenatedString)):
                return True
            if not isinstance(statement.value, cst.Call):
                return False
            name = self._module.name_of(statement.value.func) or ""
            return name in _CACHES or _ALONGSIDE.fullmatch(name) is not None
        if isinstance(statement, cst.Return):
            return statement.value is None
        return isinstance(statement, (cst.Pass, cst.Import, cst.ImportFrom, cst.Global))

    # -- steps

    def _step(self, call: cst.Call) -> StepPlace | None:
        if self._is_for_a_purpose(call):
            return None
        places = self._module.fact(StepPlaces)
        found = places.of(call, places.always, trained=True) or places.of(call, places.always)
        found = found or self._forward(call) or self._piece_by_piece(call)
        if found is None or self._ends_a_phase(call, found.step):
            return None
        if any(map(self._is_for_a_purpose, found.calls)) or self._is_handling_models(found.step):
            return None
        return None if self._saves_memory(found.step) else found

    def _forward(self, call: cst.Call) -> StepPlace | None:
        """What runs ``call`` for every batch, in a class whose loop is not seen: `forward` or a step of Lightning."""
        places, function = self._module.fact(StepPlaces), self._module.function_of(call)
        if function is None or not places.always(call, function):
            return None
        if function in self._module.fact(LibrarySteps).evaluations:
            return StepPlace(function, (), trains=False)
        return places.in_training(call)

    def _piece_by_piece(self, call: cst.Call) -> StepPlace | None:
        """The loop around ``call`` in which a function that it calls runs a network once: ``decode(x[i:end])``."""
        places = self._module.fact(StepPlaces)
        for loop in self._module.fact(Loops).around(call):
            if places.always(call, loop.node) and self._module.fact(NetworkLoops).runs_once(loop):
                return StepPlace(loop.node, (), trains=False)
        return None

    def _ends_a_phase(self, call: cst.Call, step: cst.CSTNode) -> bool:
        """Whether a loop, or a comprehension, that runs a network precedes ``call`` in its step: an evaluation.

        If the step is in another function, what precedes ``call`` in its own function counts.
        """
        function = self._module.function_of(call)
        if function is None:
            return False
        place = step if self._tree.within(step, function) and self._tree.within(call, step) else function
        if place not in self._first_ends:
            self._first_ends[place] = self._first_end(place)
        return self._tree.index(call) > self._first_ends[place]

    def _first_end(self, place: cst.CSTNode) -> float:
        """The index at which the first loop, or comprehension, within a function or loop ends that runs a network."""
        runs_network, end = self._module.fact(Networks).runs_network, math.inf
        body = place.body if isinstance(place, (cst.FunctionDef, cst.For, cst.While)) else place
        for loop in self._tree.inside(body, *_REPEATING):
            if self._tree.last(loop) >= end:
                continue
            repeated: cst.CSTNode | None = None
            if isinstance(loop, cst.BaseSimpleComp):
                repeated = loop.elt
            elif isinstance(loop, (cst.For, cst.While)) and not self._accumulates(loop):
                repeated = loop.body
            if repeated is None:
                continue
            runs = filter(runs_network, self._tree.calls_in(repeated))
            if any(not self._runs_each_once(loop, call) for call in runs):
                end = self._tree.last(loop)
        return end

    def _runs_each_once(self, loop: cst.CSTNode, call: cst.Call) -> bool:
        """Whether ``call`` runs another network at each iteration of a loop: ``for layer in self.layers: layer(x)``."""
        return isinstance(loop, cst.For) and bool(self._tree.names_in(loop.target) & self._tree.names_in(call.func))

    def _accumulates(self, loop: cst.For | cst.While) -> bool:
        """Whether a loop adds up gradients for one step of an optimizer, which follows it."""
        calls = self._tree.calls_in(loop.body)
        return any(map(is_backward, calls)) and not any(map(is_step, calls))

    def _saves_memory(self, step: cst.CSTNode) -> bool:
        """Whether a loop is there for machines with little memory: under ``if self.offload:``."""
        return any(
            isinstance(above, cst.If) and _SAVING.search(self._module.code(above.test)) is not None
            for above in self._tree.ancestors(step)
        )

    def _is_for_a_purpose(self, call: cst.Call) -> bool:
        around = (function for function in self._module.functions_around(call) if function not in self._helpers)
        return any(PURPOSES.search(function.name.value) for function in around)

    def _is_handling_models(self, step: cst.CSTNode) -> bool:
        """The same as `_handles_models`, answered once per step."""
        if step not in self._handling:
            self._handling[step] = self._handles_models(step)
        return self._handling[step]

    def _handles_models(self, step: cst.CSTNode) -> bool:
        """Whether an iteration of a loop creates or loads a network of its own, or the loop has few iterations."""
        if not isinstance(step, (cst.For, cst.While)):
            return False
        if isinstance(step, cst.For) and _FEW.fullmatch(self._module.code(step.iter)):
            return True
        return any(self._makes_network(inner) for inner in self._tree.calls_in(step.body)) or any(
            isinstance(node, cst.Del) and self._module.value(node.target).kind is Kind.MODULE
            for node in self._tree.nodes_in(step.body)
        )

    def _makes_network(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("load_state_dict", "from_pretrained"):
            return True
        value = self._module.value(call)
        return value.kind is Kind.MODULE and call in value.origins
