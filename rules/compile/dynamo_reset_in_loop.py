from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_RESETS = ("torch._dynamo.reset", "torch._dynamo.reset_code_caches", "torch.compiler.reset")
#: Functions that measure or compare, and want every round to start anew.
_MEASURES = re.compile(r"bench|profil|time|timing|warm|test|sweep|measur|compar|autotune|repro|accuracy", re.I)
#: Loop variables that stand for one configuration a round.
_CONFIGURATIONS = re.compile(
    r"size|len|dim|width|depth|mode|backend|dtype|config|cfg|model|device|fold|trial|seed|case|arm|variant|shape|bs$|"
    r"opt|name|setting|param|fn|func|run",
    re.I,
)
#: Conditions that are true whenever compiling is on.
_COMPILING = re.compile(r"compil|dynamo|hasattr|is_available", re.I)


class DynamoResetInLoop(Rule):
    """The compile cache is thrown away in a loop that needs it again in the next round.

    ## What it does
    Flags `torch._dynamo.reset()`, `torch._dynamo.reset_code_caches()` and `torch.compiler.reset()` in a training loop,
    in a loop over epochs, or in a loop that runs something compiled outside of it; also where the call stands in a
    function that such a loop calls.

    A loop that compiles something else in every round (one model after the other, one setting after the other) is left
    alone, and so are tests, benchmarks and resets that hang on a condition.

    ## Why it is slow
    A reset forgets every compiled function of the process. The next call traces the code again, builds its graphs
    again and looks their kernels up in the cache on disk, or generates them again. That happens in every round, while
    the call that finds its compiled code only checks a few conditions.

    ## Example
    ```python
    model = torch.compile(model)
    for epoch in range(epochs):
        train(model, loader)
        torch._dynamo.reset()
    ```

    ## Use instead
    ```python
    model = torch.compile(model)
    for epoch in range(epochs):
        train(model, loader)
    ```
    If the compiler gives up after too many versions of one function, mark what varies: `torch._dynamo.mark_dynamic`,
    or `dynamic=True`.

    ## Fix safety
    Unsafe: compiled code and what it holds on to stay in memory, and code that was compiled for one case is used again
    for the next.

    ## When to ignore
    When each round runs a model that is never run again, and memory is short.

    ## References
    - [torch.compiler.reset](https://docs.pytorch.org/docs/stable/generated/torch.compiler.reset.html)
    - [Dealing with recompilations](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html)
    """

    code = "TL507"
    name = "dynamo-reset-in-loop"
    words = (("dynamo.reset", "compiler.reset", "import reset"), ("for ", "while "))
    since = (2, 0)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        if module.fact(Purposes).is_test:
            return
        for call in module.own_calls(*_RESETS):
            loop = _loop_that_needs_it(module, call.node)
            if loop is None:
                continue
            statement = module.tree.statement_of(call.node)
            edited = edits.delete_with_block(module, statement)
            yield self.diagnostic(
                module,
                call.node,
                f"`{call.name}()` discards the compile cache at every iteration",
                label="the next iteration compiles again",
                notes=(Note.at(module, loop, "runs at every iteration of the loop"),),
                fix=None
                if edited is None
                else Fix("remove the reset", edited, Applicability.UNSAFE, "compiled code stays in memory"),
            )


def _loop_that_needs_it(module: Module, reset: cst.Call) -> cst.For | cst.While | None:
    """The loop that resets in every round and runs the same compiled code in the next one."""
    from torchlint.model.training.loops import Loops

    places = [reset]
    function = module.function_of(reset)
    if function is not None and not module.fact(Loops).around(reset) and _always_runs(module, reset, function):
        places += module.callers(function).calls
    for place in places:
        around = module.fact(Loops).around(place)
        if around and _always_runs(module, place, around[0].node) and not _measures(module, place):
            if _needs_what_it_had(module, around[0].node):
                return around[0].node
    return None


def _needs_what_it_had(module: Module, loop: cst.For | cst.While) -> bool:
    import libcst as cst

    from torchlint.model.training.loops import LoopKind, Loops

    from ._execution import Execution
    from ._sites import CompileSites

    if any(module.tree.within(site.node, loop) for site in module.fact(CompileSites).all):
        return False
    if any(module.value(call).kind is Kind.MODULE and module.value(call).origins for call in _made_in(module, loop)):
        return False  # a new model in every round
    if module.fact(Loops).of(loop).kind is not LoopKind.OTHER:
        return True
    if isinstance(loop, cst.For):
        names = [node.value for node in module.tree.nodes_in(loop.target) if isinstance(node, cst.Name)]
        if isinstance(loop.iter, (cst.List, cst.Tuple)) or any(_CONFIGURATIONS.search(name) for name in names):
            return False
    return any(module.fact(Execution).run_in(loop))


def _made_in(module: Module, loop: cst.For | cst.While) -> list[cst.Call]:
    """The calls in a loop whose result is assigned."""
    import libcst as cst

    return [call for call in module.tree.calls_in(loop.body) if isinstance(module.tree.parent(call), cst.Assign)]


def _always_runs(module: Module, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Whether only conditions about compiling stand between ``outer`` and ``node``."""
    import libcst as cst

    from torchlint.model.syntax.climbing import climb

    for above, child in climb(module.tree, node):
        if above is outer:
            return True
        if isinstance(above, (cst.ExceptHandler, cst.Finally, cst.MatchCase, cst.Else)):
            return False
        if isinstance(above, cst.If) and child is not above.test and not _COMPILING.search(module.code(above.test)):
            return False
    return False


def _measures(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    while function is not None:
        if _MEASURES.search(function.name.value):
            return True
        function = module.function_of(function)
    return False
