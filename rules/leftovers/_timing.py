"""Code that is timed by a clock of the CPU, and what runs in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.value import Device
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.loops import Loop, LoopKind, Loops, is_backward
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes

from ._clocks import Clocks, End, Start
from ._queued import Effective, Queued, Work

#: How many readings that are stored before one are looked at.
_MOST = 2


@dataclass(frozen=True, eq=False)
class Stretch:
    """The code between two readings of the clock."""

    start: cst.CSTNode  #: the statement that stores the first reading
    end: cst.CSTNode  #: the second reading
    network: cst.Call  #: the first call in between that runs a network


class TimedStretches:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._clocks = module.fact(Clocks)
        self._queued = module.fact(Queued)

    def unfinished(self) -> Iterator[Stretch]:
        """The stretches that run a network, and nothing that waits until the GPU has finished."""
        tree = self._module.tree
        for end in self._clocks.ends:
            begin: tuple[Start, int] | None = None
            start = self._start_of(end)
            begin = (start, tree.last(start.node)) if start is not None else self._carried(end)
            network = self._network_in(begin[1], end.node, carried=start is None) if begin is not None else None
            if begin is not None and network is not None and not self._is_test_on_host(end.node):
                yield Stretch(begin[0].node, end.node, network)

    def _is_test_on_host(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in a self-test of a file that moves nothing to a GPU outside of its functions."""
        module = self._module
        if not module.fact(Purposes).is_self_test(node) or module.fact(Placement).is_gpu_default:
            return False
        placed = [move.call for move in module.fact(Placement).moves if move.device is not Device.CPU]
        return not any(
            module.is_own(item) and module.function_of(item) is None
            for item in (*placed, *module.tree.keywords.get("device", ()))
        )

    def _start_of(self, end: End) -> Start | None:
        """The reading that is subtracted from the one at ``end``, if both run once in the same iteration.

        A branch in between may have read the clock again.
        """
        tree, loops = self._module.tree, self._module.fact(Loops)
        before: list[Start] = []
        for key in end.keys:
            starts = self._clocks.starts.get(key, [])
            behind = bisect_left(starts, tree.index(end.node), key=self._place)
            before += (item for item in starts[max(behind - _MOST, 0) : behind] if not tree.within(end.node, item.node))
        around = [loop.node for loop in loops.around(end.node)]
        for start in sorted(before, key=self._place, reverse=True):
            if [loop.node for loop in loops.around(start.node)] != around:
                return None
            if tree.dominates(start.node, end.node):
                return start
        return None

    def _place(self, start: Start) -> int:
        return self._module.tree.index(start.node)

    def _carried(self, end: End) -> tuple[Start, int] | None:
        """The reading at the end of an iteration that the next one subtracts, and the start of that iteration.

        Only if the CPU waits for the GPU between the two: otherwise the total time of all iterations is correct.
        """
        tree = self._module.tree
        loop = next(iter(self._module.fact(Loops).around(end.node)), None)
        if loop is None:
            return None
        for key in end.keys:
            starts = self._clocks.starts.get(key, [])
            start = next(iter(starts[bisect_right(starts, tree.index(end.node), key=self._place) :]), None)
            if start is None or not tree.within(start.node, loop.node):
                continue
            if self._module.fact(Loops).around(start.node)[:1] == [loop] and self._waits_between(end, start, loop):
                return start, tree.index(loop.node.body)
        return None

    def _waits_between(self, end: End, start: Start, loop: Loop) -> bool:
        tree = self._module.tree
        calls = tree.calls_between(tree.last(tree.statement_of(end.node)), tree.index(start.node))
        return tree.dominates(end.node, start.node) and any(
            Work.WAITS in self._queued.by(call)
            and tree.dominates(call, start.node)
            and self._module.fact(Loops).around(call)[:1] == [loop]
            for call in calls
        )

    def _network_in(self, begin: int, end: cst.CSTNode, *, carried: bool) -> cst.Call | None:
        """The first call between the two whose work nothing behind it may wait for; None if there is none.

        It is one of a network rather than a backward pass. ``carried``: nothing may wait before it either.
        """
        module, tree = self._module, self._module.tree
        found: cst.Call | None = None
        last: Work | None = None
        is_one_of_two = False  # whether another branch runs a network as well
        waited: cst.CSTNode | None = None  # a loop that waits
        around = module.function_of(end) or module.root
        for node in self._queued.in_order(begin, tree.index(end), around):
            call = node if isinstance(node, cst.Call) else None
            if self._is_apart(node, end):
                continue
            inner = [loop for loop in module.fact(Loops).around(node) if not tree.within(end, loop.node)]
            if any(loop.kind is LoopKind.HOT and loop.loaders for loop in inner[:1]):
                return None  # a whole pass over the data, whose end is a small part of it
            works = self._works(node, waited)
            if found is not None and tree.exclusive(found, node):
                is_one_of_two = is_one_of_two or Work.RUNS in works
                if not is_one_of_two:
                    continue  # it runs where that work does not
            for work in works:
                if work in (Work.WAITS, Work.UNKNOWN):
                    if carried:
                        return None
                    if inner:  # of many iterations, only the work of the last one may not be finished
                        waited = inner[-1].node
                    found = None
                elif call is not None and work is Work.RUNS and (found is None or is_backward(found)):
                    found = call
                last = work
            if call is not None and self._is_on_host(call, end):
                return None
        return found if last is Work.RUNS else None

    def _is_apart(self, node: Effective, end: cst.CSTNode) -> bool:
        """Whether ``node`` usually does not run before the clock is read at ``end``, or only uses a number."""
        tree = self._module.tree
        if tree.within(end, node) or tree.exclusive(node, end):
            return True
        if isinstance(node, cst.Call) and self._is_given_a_time(node):
            return True
        rare = self._queued.periodic_condition(node, self._module.root)
        return rare is not None and not tree.within(end, rare)

    def _works(self, node: Effective, waited: cst.CSTNode | None) -> list[Work]:
        """The effects of ``node``; behind a loop that waits, only a backward pass runs for a large part of the time."""
        works = self._queued.by(node)
        is_large = isinstance(node, cst.Call) and is_backward(node)
        if waited is None or (is_large and not self._module.tree.within(node, waited)):
            return works
        return [work for work in works if work is not Work.RUNS]

    def _is_on_host(self, call: cst.Call, end: cst.CSTNode) -> bool:
        """Whether ``call`` runs a network that answers on the host, or is there until the clock is read."""
        is_run = self._module.fact(Networks).runs_network(call)
        return is_run and (self._answers_on_host(call) or self._moves_later(call, end))

    def _is_given_a_time(self, call: cst.Call) -> bool:
        """``data_time.update(time.time() - end)``: it only uses a number."""
        reading = self._module.tree.first_within(self._clocks.readings, call)
        return len(call.args) == 1 and reading is not None and reading is not call

    def _answers_on_host(self, call: cst.Call) -> bool:
        """Whether the call returns images or boxes on the CPU: a pipeline, a detector of ultralytics."""
        name = self._module.value(self._module.fact(Networks).network_of(call)).name
        return "Pipeline" in name or self._module.imports("ultralytics")

    def _moves_later(self, call: cst.Call, end: cst.CSTNode) -> bool:
        """Whether the network is still on the CPU: it moves to another device only later in its function."""
        network = self._module.code(self._module.fact(Networks).network_of(call))
        first = self._first_moves.get((self._module.function_of(call), network))
        return first is not None and self._module.tree.index(first) > self._module.tree.index(end)

    @cached_property
    def _first_moves(self) -> dict[tuple[cst.FunctionDef | None, str], cst.Call]:
        """By function and the code of the moved object, the first call that moves it to a device."""
        found: dict[tuple[cst.FunctionDef | None, str], cst.Call] = {}
        for move in self._module.methods("cuda", "to"):
            moved = (self._module.function_of(move.node), self._module.code(move.receiver))
            found.setdefault(moved, move.node)
        return found
