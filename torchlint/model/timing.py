"""Stretches of code that are timed by the host's clock, and what runs in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model.knowledge import Kind
from torchlint.model.loops import LoopKind, is_backward

if TYPE_CHECKING:
    from torchlint.model.module import Module

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
        starts = [statement for call in readings if (statement := self._kept(call)) is not None]
        for end in readings:
            start = self._start_of(end, starts)
            network = self._network_in(start, end) if start is not None else None
            if start is not None and network is not None:
                yield Stretch(start, end, network)

    def _kept(self, reading: cst.Call) -> cst.Assign | None:
        """``start = time.time()``."""
        statement = self._module.tree.parent(reading)
        return statement if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None

    def _start_of(self, end: cst.Call, starts: list[cst.Assign]) -> cst.Assign | None:
        """The reading that is taken from the one at ``end``, if both are read once in the same round."""
        tree = self._module.tree
        taken = self._taken_from(end)
        before = [item for item in starts if self._name(item) in taken and tree.index(item) < tree.index(end)]
        if not before or not tree.dominates(before[-1], end):
            return None
        rounds = [[loop.node for loop in self._module.loops.around(node)] for node in (before[-1], end)]
        return before[-1] if rounds[0] == rounds[1] else None

    def _taken_from(self, end: cst.Call) -> set[str]:
        """The names that are subtracted from a reading: ``time.time() - start``, or of ``end`` later."""
        tree = self._module.tree
        parent = tree.parent(end)
        if isinstance(parent, cst.BinaryOperation):
            return {self._module.code(parent.right)} if isinstance(parent.operator, cst.Subtract) else set()
        kept = self._kept(end)
        if kept is None:
            return set()
        found: set[str] = set()
        target = kept.targets[0].target
        for use in tree.names.get(target.value, []) if isinstance(target, cst.Name) else []:
            above = tree.parent(use)
            if isinstance(above, cst.BinaryOperation) and isinstance(above.operator, cst.Subtract):
                if above.left is use and self._module.function_of(use) is self._module.function_of(end):
                    found.add(self._module.code(above.right))
        return found - {self._name(kept)}

    def _name(self, statement: cst.Assign) -> str:
        return self._module.code(statement.targets[0].target)

    def _network_in(self, start: cst.Assign, end: cst.Call) -> cst.Call | None:
        """The first call of a network between the two; None if there is none, or if anything may wait for the GPU."""
        module, tree = self._module, self._module.tree
        function = module.function_of(end)
        home = function.body if function is not None else module.root
        found: cst.Call | None = None
        for call in tree.calls_in(home):
            if not tree.last(start) < tree.index(call) < tree.index(end):
                continue
            if tree.within(end, call) or tree.exclusive(call, end):
                continue
            if any(loop.kind is LoopKind.HOT and loop.loaders for loop in module.loops.around(call)[:1]):
                if not tree.within(end, module.loops.around(call)[0].node):
                    return None  # a whole pass over the data: its end is a small part of it
            if module.runs_network(call):
                if self._answers_on_host(call) or self._moves_later(call, end):
                    return None
                found = found or call
            elif not self._waits_for_nothing(call):
                return None
        return found

    def _answers_on_host(self, call: cst.Call) -> bool:
        """Whether what is called gives images or boxes on the host: a pipeline, a detector of ultralytics."""
        name = self._module.value(self._module.network_of(call)).name
        return "Pipeline" in name or self._module.imports("ultralytics")

    def _moves_later(self, call: cst.Call, end: cst.Call) -> bool:
        """Whether the network is still on the CPU: it goes to another device behind the timed stretch only."""
        tree = self._module.tree
        network = self._module.code(self._module.network_of(call))
        moves = [
            move
            for move in self._module.methods("cuda", "to")
            if isinstance(move.func, cst.Attribute) and self._module.code(move.func.value) == network
        ]
        return bool(moves) and all(tree.index(move) > tree.index(end) for move in moves)

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
