"""Stretches of code that are timed by the host's clock, and what runs in them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.loops import LoopKind, Loops, is_backward
from torchlint.model.training.networks import Networks

CLOCKS = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.monotonic",
        "timeit.default_timer",
        "datetime.datetime.now",
    }
)
#: Functions of torch that wait for the GPU.
_WAITING = ("torch.cuda.", "torch.save", "torch.nonzero", "torch.unique", "torch.equal", "torch.allclose", "torch.ops.")
#: Builtins and methods of tensors, modules and optimizers that wait for nothing.
_BUILTINS = frozenset("builtins." + name for name in "range len enumerate zip list tuple dict isinstance".split())
_METHODS = frozenset(
    "append backward clone contiguous cuda data_parallel detach dim eval expand float flatten half index_select long "
    "log_softmax max mean min no_grad permute reshape requires_grad_ sigmoid size softmax squeeze step sum to train "
    "transpose type unsqueeze view zero_grad".split()
)


@dataclass(frozen=True, eq=False)
class Stretch:
    """What runs between two readings of the clock."""

    start: cst.CSTNode  #: the statement that keeps the first reading
    end: cst.CSTNode  #: the second reading
    network: cst.Call  #: the first call in between that runs a network


class Timing:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def unfinished(self) -> Iterator[Stretch]:
        """The stretches that run a network, and nothing that would wait until the GPU has done its work."""
        readings = [call.node for call in self._module.calls(*CLOCKS)]
        starts: dict[str, list[cst.Assign]] = {}
        for call in readings:
            statement = self._kept(call)
            if statement is not None:
                starts.setdefault(self._name(statement), []).append(statement)
        for end in readings:
            start = self._start_of(end, starts)
            network = self._network_in(start, end) if start is not None else None
            if start is not None and network is not None:
                yield Stretch(start, end, network)

    def _kept(self, reading: cst.Call) -> cst.Assign | None:
        """``start = time.time()``."""
        statement = self._module.tree.parent(reading)
        return statement if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None

    def _start_of(self, end: cst.Call, starts: dict[str, list[cst.Assign]]) -> cst.Assign | None:
        """The reading that is taken from the one at ``end``, if both are read once in the same round."""
        tree = self._module.tree
        before: list[cst.Assign] = []
        for name in self._taken_from(end):
            named = starts.get(name, [])
            behind = bisect_left(named, tree.index(end), key=tree.index)
            before += named[max(behind - 1, 0) : behind]
        start = max(before, key=tree.index, default=None)
        if start is None or not tree.dominates(start, end):
            return None
        rounds = [[loop.node for loop in self._module.fact(Loops).around(node)] for node in (start, end)]
        return start if rounds[0] == rounds[1] else None

    def _taken_from(self, end: cst.Call) -> set[str]:
        """The names that are subtracted from a reading: ``time.time() - start``, or of ``end`` later."""
        tree = self._module.tree
        parent = tree.parent(end)
        if isinstance(parent, cst.BinaryOperation):
            return {self._module.code(parent.right)} if isinstance(parent.operator, cst.Subtract) else set()
        kept = self._kept(end)
        if kept is None:
            return set()
        target = kept.targets[0].target
        if not isinstance(target, cst.Name):
            return set()
        return self._subtracted_from.get((self._module.function_of(end), target.value), set()) - {self._name(kept)}

    @cached_property
    def _subtracted_from(self) -> dict[tuple[cst.FunctionDef | None, str], set[str]]:
        """By function and name, the code of what is subtracted from the name there."""
        found: dict[tuple[cst.FunctionDef | None, str], set[str]] = {}
        for part in self._module.tree.nodes:
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Subtract):
                if isinstance(part.left, cst.Name):
                    key = (self._module.function_of(part.left), part.left.value)
                    found.setdefault(key, set()).add(self._module.code(part.right))
        return found

    def _name(self, statement: cst.Assign) -> str:
        return self._module.code(statement.targets[0].target)

    def _network_in(self, start: cst.Assign, end: cst.Call) -> cst.Call | None:
        """The first call of a network between the two; None if there is none, or if anything may wait for the GPU."""
        module, tree = self._module, self._module.tree
        found: cst.Call | None = None
        for call in tree.calls_between(tree.last(start), tree.index(end)):
            if tree.within(end, call) or tree.exclusive(call, end):
                continue
            if any(loop.kind is LoopKind.HOT and loop.loaders for loop in module.fact(Loops).around(call)[:1]):
                if not tree.within(end, module.fact(Loops).around(call)[0].node):
                    return None  # a whole pass over the data: its end is a small part of it
            if module.fact(Networks).runs_network(call):
                if self._answers_on_host(call) or self._moves_later(call, end):
                    return None
                found = found or call
            elif not self._waits_for_nothing(call):
                return None
        return found

    def _answers_on_host(self, call: cst.Call) -> bool:
        """Whether what is called gives images or boxes on the host: a pipeline, a detector of ultralytics."""
        name = self._module.value(self._module.fact(Networks).network_of(call)).name
        return "Pipeline" in name or self._module.imports("ultralytics")

    def _moves_later(self, call: cst.Call, end: cst.Call) -> bool:
        """Whether the network is still on the CPU: it goes to another device behind the timed stretch only."""
        first = self._first_moves.get(self._module.code(self._module.fact(Networks).network_of(call)))
        return first is not None and self._module.tree.index(first) > self._module.tree.index(end)

    @cached_property
    def _first_moves(self) -> dict[str, cst.Call]:
        """By the code of what is moved, the first call that moves it to a device."""
        found: dict[str, cst.Call] = {}
        for move in self._module.methods("cuda", "to"):
            if isinstance(move.func, cst.Attribute):
                found.setdefault(self._module.code(move.func.value), move)
        return found

    def _waits_for_nothing(self, call: cst.Call) -> bool:
        name = self._module.name_of(call.func)
        if name is not None:
            known = name in CLOCKS or name in _BUILTINS or name.startswith(("torch.", "tqdm."))
            return known and not name.startswith(_WAITING)
        if is_backward(call) or self._module.value(call.func).kind is Kind.LOSS:
            return True
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _METHODS:
            return False
        if call.func.attr.value == "to" and any("cpu" in self._module.code(argument.value) for argument in call.args):
            return False
        return (
            self._module.value(call.func.value).kind is not Kind.SCALER
        )  # its step reads whether gradients overflowed
