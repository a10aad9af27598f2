from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.edits import Edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._sites import Compile

#: Methods that run once per step.
_PER_STEP = frozenset({"forward", "__call__", "training_step", "validation_step", "test_step", "predict_step", "step"})
#: What registers a function as an operator, which then runs at every call of it.
_CUSTOM_OPS = frozenset(f"torch.library.{name}" for name in ("custom_op", "impl", "triton_op"))
#: Functions that measure, where compiling anew is what is measured.
_MEASURES = re.compile(r"bench|profil|time|timing|test|sweep|measur|compar|autotune", re.I)
#: Loop variables that stand for one setting a round.
_CONFIGURATION = re.compile(r"size|len|shape|dim|mode|backend|dtype|conf|cfg|model|device|fn|func|seed|name", re.I)
_MEMO = frozenset({"functools.lru_cache", "functools.cache", "functools.cached_property"})


class CompileInHotPath(Rule):
    """`torch.compile` is called again at every step, where once would do.

    ## What it does
    Flags `torch.compile(...)` inside `forward`, `training_step` or the `step` of an optimizer, and inside a loop over
    batches or steps, where what it gives is called right there. A function that such a loop calls counts as part of
    the loop.

    Compiling in a constructor, once per layer or per model, behind a test whether it was done before, in a cached
    function or in a benchmark is left alone.

    ## Why it is slow
    The code is not compiled again each time: what was compiled is remembered for the code of the function. But every
    `torch.compile(...)` makes a new wrapper, and its first call sets that up before it finds the compiled code: several
    times the work of calling a wrapper that was kept. A function defined at every step may cost more: the values that
    it closes over are checked too, and new ones can compile another version.

    ## Example
    ```python
    def forward(self, x):
        return torch.compile(activation)(x)
    ```

    ## Use instead
    ```python
    compiled_activation = torch.compile(activation)


    def forward(self, x):
        return compiled_activation(x)
    ```

    ## Fix safety
    Unsafe: the call moves out of the loop, or to the level of the module, and so runs at import and once. Offered
    where what is compiled exists there.

    ## When to ignore
    When the function runs only a few times in the life of the program.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [pytorch/ao#2500](https://github.com/pytorch/ao/issues/2500)
    """

    code = "TL502"
    name = "compile-in-hot-path"
    words = (
        "torch",
        ("torch.compile", "th.compile", "import compile"),
        ("for ", "while ", "def forward(", "def __call__(", "_step(", "def step(", "custom_op"),
    )
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._sites import CompileSites

        if module.fact(Purposes).is_test:
            return
        for site in module.fact(CompileSites).for_speed:
            if site.in_place:
                continue
            place = _repeated(module, site)
            if place is None:
                continue
            where, why = place
            edited = _hoist(module, site, where)
            yield self.diagnostic(
                module,
                site.node,
                "`torch.compile` is called again at every step",
                label="creates a new wrapper each time",
                notes=(Note.at(module, where, f"runs at every {why}"),),
                fix=None
                if edited is None
                else Fix("compile once", edited, Applicability.UNSAFE, "it is then compiled before the first step"),
            )


# -- where it is called again and again


def _repeated(module: Module, site: Compile) -> tuple[cst.CSTNode, str] | None:
    """What runs the compile at every step: a loop, or a function; None if nothing does for sure."""
    import libcst as cst

    from torchlint.model.training.loops import LoopKind, Loops

    from ._execution import Execution
    from ._traced import TracedCode

    runs = module.fact(Execution).runs(site)
    around = module.fact(Loops).around(site.node)
    if around:
        loop = around[0]
        again = loop.kind is LoopKind.HOT or _counts(module, loop.node) or _is_run_per_item(module, site, loop.node)
        if again and _is_unconditional(module, site.node, loop.node) and _is_invariant(module, site, loop.node):
            if any(module.tree.within(call, loop.node) for call in runs) and not _measures(module, site.node):
                return loop.node, "iteration of the loop"
    function = module.function_of(site.node)
    if function is None or not any(module.tree.within(call, function) for call in runs):
        return None
    if not _is_unconditional(module, site.node, function) or _is_cached(module, function):
        return None
    if any(isinstance(node, cst.Yield) for node in module.tree.nodes_in(function.body)):
        return None
    if function in module.fact(TracedCode).functions:
        return None  # compiled from outside
    if _is_step(module, function):
        return function, f"call of `{function.name.value}`"
    if around:
        return None
    for call in module.callers(function).calls:
        caller = module.function_of(call)
        if caller is not None and _is_step(module, caller) and _is_unconditional(module, call, caller):
            return caller, f"`{caller.name.value}`"
        for item in module.fact(Loops).around(call):
            if item.kind is LoopKind.HOT and _is_unconditional(module, call, item.node):
                return None if _measures(module, call) else (item.node, "iteration of the loop")
    return None


def _counts(module: Module, loop: cst.For | cst.While) -> bool:
    """`for i in range(100)`, `while step < steps`: not one model, size or setting after the other."""
    import libcst as cst

    if isinstance(loop, cst.While):
        return True
    if not isinstance(loop.iter, cst.Call) or module.name_of(loop.iter.func) != "builtins.range":
        return False
    return isinstance(loop.target, cst.Name) and loop.target.value in ("_", "i", "it", "t", "step", "iteration", "iter")


def _is_run_per_item(module: Module, site: Compile, loop: cst.For | cst.While) -> bool:
    """`for p in parameters: torch.compile(update)(p)`: one item after the other, not one setting after the other."""
    import libcst as cst

    above = module.tree.parent(site.node)
    if not (isinstance(above, cst.Call) and above.func is site.node) or not isinstance(loop, cst.For):
        return False
    if not isinstance(loop.iter, (cst.Name, cst.Attribute)):
        return False
    names = [node.value for node in module.tree.nodes_in(loop.target) if isinstance(node, cst.Name)]
    return not any(_CONFIGURATION.search(name) for name in names)


def _is_unconditional(module: Module, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Whether at most a plain flag stands between the two: `if self.fast:`, not `if self.fast is None:`."""
    import libcst as cst

    from torchlint.model.semantics.gates import Gates
    from torchlint.model.syntax.climbing import climb

    for above, child in climb(module.tree, node, outer):
        if isinstance(above, (cst.ExceptHandler, cst.Else, cst.MatchCase, cst.Lambda)):
            return False
        if isinstance(above, cst.If) and child is not above.test:
            if not isinstance(above.test, (cst.Name, cst.Attribute)) and not module.fact(Gates).probes(above.test):
                return False
    return not any(True for _ in module.fact(Gates).left_before(node))


def _is_invariant(module: Module, site: Compile, loop: cst.CSTNode) -> bool:
    """Whether every round compiles the same."""
    import libcst as cst

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
    bases = list(module.definitions.base_names(owner))
    if function.name.value == "step":
        return any(name.endswith("Optimizer") or name.startswith("torch.optim.") for name in bases)
    return module.values.instance(owner).kind is Kind.MODULE or "torch.autograd.Function" in bases


def _is_cached(module: Module, function: cst.FunctionDef) -> bool:
    return any(module.name_of(module.callee(decorator.decorator)) in _MEMO for decorator in function.decorators)


def _measures(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    return function is not None and _MEASURES.search(function.name.value) is not None


# -- compile once


def _hoist(module: Module, site: Compile, where: cst.CSTNode) -> Edits | None:
    """Move the compile before the loop, or before the class or function at the level of the module."""
    import libcst as cst

    if isinstance(site.target, cst.FunctionDef) or site.call is None or "\n" in module.code(site.call):
        return None
    goal = where if isinstance(where, (cst.For, cst.While)) else _outermost(module, where)
    if goal is None or not module.tree.within(site.node, goal) or not _exists_at(module, site.node, goal):
        return None
    statement = module.tree.statement_of(site.node)
    above = module.tree.parent(site.node)
    if isinstance(above, cst.Call) and above.func is site.node and isinstance(site.target, (cst.Name, cst.Attribute)):
        name = f"compiled_{site.target.value if isinstance(site.target, cst.Name) else site.target.attr.value}"
        if name in module.tree.names:
            return None
        inserted = edits.insert_before(module, goal, f"{name} = {module.code(site.node)}", *_gap(goal, where))
        return None if inserted is None else inserted + edits.replace(module, site.node, name)
    if not isinstance(statement, cst.Assign) or statement.value is not site.node or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if not isinstance(target, cst.Name) or len(module.names.bindings(target)) != 1:
        return None
    if goal is not where and target.value in module.tree.module_scope.bindings:
        return None
    deleted = edits.delete_statement(module, statement)
    inserted = edits.insert_before(module, goal, f"{target.value} = {module.code(site.node)}", *_gap(goal, where))
    return None if deleted is None or inserted is None else inserted + deleted


def _gap(goal: cst.CSTNode, where: cst.CSTNode) -> tuple[str, ...]:
    """The empty rows before a class or function."""
    return () if goal is where else ("", "")


def _outermost(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The statement of the module that holds ``node``."""
    import libcst as cst

    found = module.tree.top_level(node)
    return found if isinstance(found, (cst.FunctionDef, cst.ClassDef)) and not found.decorators else None


def _exists_at(module: Module, node: cst.CSTNode, goal: cst.CSTNode) -> bool:
    """Whether every name in ``node`` has its value before ``goal``."""
    import libcst as cst

    for part in module.tree.nodes_in(node):
        if not isinstance(part, cst.Name) or part.value in ("True", "False", "None"):
            continue
        bound = module.names.bindings(part)
        if not bound or any(module.tree.within(item.node, goal) for item in bound):
            return False
        outside = module.tree.function_of(goal) is None
        if not all(module.tree.dominates(item.node, goal) for item in bound) and (outside or len(bound) > 1):
            return False
    return True
