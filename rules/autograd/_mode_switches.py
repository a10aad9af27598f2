"""Switches between training and evaluation mode that a training loop repeats without need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.training.mode_switches import ModeSwitch, ModeSwitches
from torchlint.model.training.steps import Steps

#: Words of functions that may leave a network in the other mode.
_SWITCHING = re.compile(
    r"eval|valid|test|sampl|generat|infer|predict|visual|plot|demo|freeze|mode(?!l)|callback|hook|epoch|step_end"
)
#: How many calls deep a switch is looked for.
_DEPTH = 3


@dataclass(frozen=True, eq=False)
class RepeatedSwitch:
    """A switch that each iteration of a loop repeats."""

    switch: ModeSwitch
    loop: cst.For | cst.While


class RepeatedSwitches:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def all(self) -> Iterator[RepeatedSwitch]:
        """The switches of the file, in order."""
        loops = [item for item in self._module.fact(Steps).places if isinstance(item, (cst.For, cst.While))]
        for switch in self._module.fact(ModeSwitches).all:
            if switch.evaluation is None or not switch.target or not self._module.is_own(switch.call):
                continue
            if switch.place is not switch.call or not isinstance(self._tree.parent(switch.call), cst.Expr):
                continue
            around = [item for item in loops if self._tree.within(switch.call, item.body)]
            if not around:
                continue
            loop = max(around, key=self._tree.index)
            assert isinstance(switch.call.func, cst.Attribute)
            if self._module.value(switch.call.func.value).kind is not Kind.MODULE or self._is_made(switch, loop):
                continue
            if self._runs_always(switch, loop) and not self._may_switch_back(loop, switch.evaluation):
                yield RepeatedSwitch(switch, loop)

    def _runs_always(self, switch: ModeSwitch, loop: cst.For | cst.While) -> bool:
        """Whether the switch is a statement of the loop itself, so that it can be moved."""
        return bool(self._tree.block_path(switch.call)) and any(
            block is loop.body for block, _, _ in self._tree.block_path(switch.call)[:2]
        )

    def _is_made(self, switch: ModeSwitch, loop: cst.For | cst.While) -> bool:
        """Whether the network gets its name in the loop."""
        first = switch.target.partition(".")[0]
        nodes = self._tree.names.get(first, ())
        names = [node for node in nodes if self._tree.within(node, switch.call)]
        bound = (item for name in names for item in self._module.names.bindings(name))
        stored = any(
            dotted_name(target) == switch.target and self._tree.within(statement, loop)
            for target, _, statement in self._tree.stores
        )
        return stored or any(item.node is loop or self._tree.within(item.node, loop) for item in bound)

    def _may_switch_back(self, loop: cst.For | cst.While, evaluation: bool) -> bool:
        """Whether anything in the loop may switch a network to the other mode."""
        return self._switches(loop.body, evaluation, _DEPTH, set())

    def _switches(self, place: cst.CSTNode, evaluation: bool, depth: int, seen: set[cst.CSTNode]) -> bool:
        for switch in self._module.fact(ModeSwitches).all:
            if self._tree.within(switch.call, place) and switch.evaluation is not evaluation:
                return True
        if any(
            self._tree.within(statement, place) and last_name(target) == "training"
            for target, _, statement in self._tree.stores
        ):
            return True
        for call in self._tree.calls_in(place):
            functions = self._module.fact(Dispatch).functions(call)
            if not functions and self._may_switch(call):
                return True
            for function in functions:
                if function in seen:
                    continue
                seen.add(function)
                if depth <= 0 or self._switches(function.body, evaluation, depth - 1, seen):
                    return True
        return False

    def _may_switch(self, call: cst.Call) -> bool:
        """Whether a function or method that is not seen may switch a network that it is given, or that it stores."""
        last = last_name(call.func)
        if last in ("eval", "train") or not _SWITCHING.search(last.lower()):
            return False
        if (dotted_name(call.func) or "").startswith("self."):
            return True
        return any(self._module.value(item.value).kind is Kind.MODULE for item in call.args)
