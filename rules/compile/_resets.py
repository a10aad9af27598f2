"""Loops that discard compiled code that they need again."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.training.function_words import measuring
from torchlint.model.training.loops import LoopKind, Loops

from ._execution import Execution
from ._sites import CompileSites

#: Functions that measure or compare, and start every iteration without compiled code.
_MEASURES = measuring("time", "timing", "warm", "test", "sweep", "compar", "autotune", "repro", "accuracy")
#: Loop variables that contain one configuration per iteration.
_CONFIGURATIONS = re.compile(
    r"size|len|dim|width|depth|mode|backend|dtype|config|cfg|model|device|fold|trial|seed|case|arm|variant|shape|bs$|"
    r"opt|name|setting|param|fn|func|run",
    re.I,
)
#: Conditions that are true whenever compilation is enabled.
_COMPILING = re.compile(r"compil|dynamo|hasattr|is_available", re.I)


def resetting_loop(module: Module, reset: cst.Call) -> cst.For | cst.While | None:
    """The loop that resets at every iteration and runs the same compiled code in the next one."""
    places = [reset]
    function = module.function_of(reset)
    if function is not None and not module.fact(Loops).around(reset) and _always_runs(module, reset, function):
        places += module.callers(function).calls
    for place in places:
        around = module.fact(Loops).around(place)
        if around and _always_runs(module, place, around[0].node) and not module.is_in_function_named(place, _MEASURES):
            if _needs_compiled_code(module, around[0].node):
                return around[0].node
    return None


def _needs_compiled_code(module: Module, loop: cst.For | cst.While) -> bool:
    if any(module.tree.within(site.node, loop) for site in module.fact(CompileSites).all):
        return False
    if any(
        module.value(call).kind is Kind.MODULE and module.value(call).origins for call in _assigned_calls(module, loop)
    ):
        return False  # a new model at every iteration
    if module.fact(Loops).of(loop).kind is not LoopKind.OTHER:
        return True
    if isinstance(loop, cst.For):
        names = module.tree.names_in(loop.target)
        if isinstance(loop.iter, (cst.List, cst.Tuple)) or any(_CONFIGURATIONS.search(name) for name in names):
            return False
    return module.fact(Execution).runs_one_in(loop)


def _assigned_calls(module: Module, loop: cst.For | cst.While) -> list[cst.Call]:
    """The calls in a loop whose result is assigned."""
    return [call for call in module.tree.calls_in(loop.body) if isinstance(module.tree.parent(call), cst.Assign)]


def _always_runs(module: Module, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Whether there are only conditions about compilation between ``outer`` and ``node``."""
    for above, child in climb(module.tree, node):
        if above is outer:
            return True
        if isinstance(above, (*HANDLERS, cst.Finally, cst.MatchCase, cst.Else)):
            return False
        if isinstance(above, cst.If) and child is not above.test and not _COMPILING.search(module.code(above.test)):
            return False
    return False
