"""Where ``torch.compile`` is called at every step."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.version_checks import VersionChecks
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.training.function_words import measuring
from torchlint.model.training.loops import LoopKind, Loops

from ._execution import Execution
from ._sites import Compile
from ._traced import TracedCode

#: Methods that run once per step.
_PER_STEP = frozenset({"forward", "__call__", "training_step", "validation_step", "test_step", "predict_step", "step"})
#: Decorators that register a function as an operator, whose calls run the function.
_CUSTOM_OPS = frozenset(f"torch.library.{name}" for name in ("custom_op", "impl", "triton_op"))
#: Functions that measure compilation.
_MEASURES = measuring("time", "timing", "test", "sweep", "compar", "autotune")
#: Loop variables that contain one setting per iteration.
_CONFIGURATION = re.compile(r"size|len|shape|dim|mode|backend|dtype|conf|cfg|model|device|fn|func|seed|name", re.I)
#: Code that other code replaces.
_OTHERWISE = frozenset({ConditionKind.HANDLER, ConditionKind.CASE})
_MEMO = frozenset({"functools.lru_cache", "functools.cache", "functools.cached_property"})


def repeated(module: Module, site: Compile) -> tuple[cst.CSTNode, str] | None:
    """What runs the compile at every step: a loop or a function; None if nothing certainly does."""
    around = module.fact(Loops).around(site.node)
    if around:
        loop = around[0]
        again = loop.kind is LoopKind.HOT or _counts(module, loop.node) or _is_run_per_item(module, site, loop.node)
        if again and _is_unconditional(module, site.node, loop.node) and _is_invariant(module, site, loop.node):
            if module.fact(Execution).is_run_in(site, loop.node) and not module.is_in_function_named(
                site.node, _MEASURES
            ):
                return loop.node, "iteration of the loop"
    function = module.function_of(site.node)
    if function is None or not _runs_at_every_call(module, site, function):
        return None
    if _is_step(module, function):
        return function, f"call of `{function.name.value}`"
    if around:
        return None
    for call in module.callers(function).calls:
        caller = module.function_of(call)
        if caller is not None and _is_step(module, caller) and _is_unconditional(module, call, caller):
            return caller, f"call of `{caller.name.value}`"
        for item in module.fact(Loops).around(call):
            if item.kind is LoopKind.HOT and _is_unconditional(module, call, item.node):
                return None if module.is_in_function_named(call, _MEASURES) else (item.node, "iteration of the loop")
    return None


def step_around(module: Module, site: Compile) -> cst.FunctionDef | None:
    """The function that runs once per step, and the compile with it."""
    function = module.function_of(site.node)
    if function is None or not _is_step(module, function) or not _runs_at_every_call(module, site, function):
        return None
    return function


def _runs_at_every_call(module: Module, site: Compile, function: cst.FunctionDef) -> bool:
    """Whether each call of `function`, which contains `site`, compiles and runs the result."""
    if not module.fact(Execution).is_run_in(site, function):
        return False
    if not _is_unconditional(module, site.node, function) or _is_cached(module, function):
        return False
    if any(isinstance(node, cst.Yield) for node in module.tree.nodes_in(function.body)):
        return False
    return function not in module.fact(TracedCode).functions  # compiled from outside


def _counts(module: Module, loop: cst.For | cst.While) -> bool:
    """`for i in range(100)`, `while step < steps`: not a loop over models, sizes or settings."""
    if isinstance(loop, cst.While):
        return True
    if not isinstance(loop.iter, cst.Call) or module.name_of(loop.iter.func) != "builtins.range":
        return False
    return isinstance(loop.target, cst.Name) and loop.target.value in ("_", "i", "it", "t", "step", "iteration", "iter")


def _is_run_per_item(module: Module, site: Compile, loop: cst.For | cst.While) -> bool:
    """`for p in parameters: torch.compile(update)(p)`: a loop over items, not over settings."""
    above = module.tree.parent(site.node)
    if not (isinstance(above, cst.Call) and above.func is site.node) or not isinstance(loop, cst.For):
        return False
    if not isinstance(loop.iter, (cst.Name, cst.Attribute)):
        return False
    names = module.tree.names_in(loop.target)
    return not any(_CONFIGURATION.search(name) for name in names)


def _is_unconditional(module: Module, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Whether there is at most a plain flag between the two: `if self.fast:`, not `if self.fast is None:`."""
    checks = module.fact(VersionChecks)
    for item in conditions(module.tree, node, outer):
        if item.kind in _OTHERWISE or isinstance(item.part, cst.Else) or isinstance(item.node, cst.Lambda):
            return False
        if item.kind is ConditionKind.BRANCH and not isinstance(item.test, (cst.Name, cst.Attribute)):
            if item.test is None or not checks.probes(item.test):
                return False
    return not any(True for _ in checks.left_before(node))


def _is_invariant(module: Module, site: Compile, loop: cst.CSTNode) -> bool:
    """Whether every iteration compiles the same object."""
    if isinstance(site.target, cst.FunctionDef):
        return True
    for node in module.tree.nodes_in(site.target):
        if isinstance(node, (cst.Call, cst.Lambda)):
            return False
        if isinstance(node, cst.Name):
            statement = module.tree.statement_of(site.node)
            bound = [item.node for item in module.names.bindings(node) if item.node is not statement]
            if any(module.tree.within(item, loop) for item in bound):
                return False
    return True


def _is_step(module: Module, function: cst.FunctionDef) -> bool:
    if any(module.name_of(module.callee(item.decorator)) in _CUSTOM_OPS for item in function.decorators):
        return True
    owner = module.tree.class_of(function)
    if owner is None or function.name.value not in _PER_STEP:
        return False
    kind = module.values.instance(owner).kind
    if function.name.value == "step":
        return kind is Kind.OPTIMIZER
    return kind is Kind.MODULE or "torch.autograd.Function" in module.definitions.base_names(owner)


def _is_cached(module: Module, function: cst.FunctionDef) -> bool:
    return any(module.name_of(module.callee(decorator.decorator)) in _MEMO for decorator in function.decorators)
