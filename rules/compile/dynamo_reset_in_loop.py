from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_RESETS = ("torch._dynamo.reset", "torch._dynamo.reset_code_caches", "torch.compiler.reset")


class DynamoResetInLoop(Rule):
    """`torch._dynamo.reset()` in a loop discards the compile cache at every iteration.

    ## What it does
    Flags `torch._dynamo.reset()`, `torch._dynamo.reset_code_caches()` and `torch.compiler.reset()` in a training loop,
    in a loop over epochs, or in a loop that runs something compiled outside of it. The call may also be in a function
    that such a loop calls.

    A loop that compiles something else at every iteration (one model or setting after the other) is not flagged.
    Neither are tests, benchmarks and resets that depend on a condition.

    ## Why it is slow
    A reset discards every compiled function of the process. The next call traces the code again, builds its graphs
    again, and generates their kernels again or finds them in the cache on disk. This happens at every iteration. A call
    that finds its compiled code only checks a few guards.

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
    If the compiler falls back to eager after too many versions of one function, mark the dimensions that vary:
    `torch._dynamo.mark_dynamic`, or `dynamic=True`.

    ## Fix safety
    Unsafe: compiled code, and the objects that it refers to, stay in memory. Code that was compiled for one case is
    used again for the next. An `if` or `for` that contains only the reset is deleted with it. An import that only the
    reset uses (`import torch._dynamo`) is removed. No fix is offered if the reset is part of a larger statement, or if
    the condition or the iterable may have side effects.

    ## When to ignore
    Ignore it if each iteration runs a model that never runs again, and memory is short.

    ## References
    - [torch.compiler.reset](https://docs.pytorch.org/docs/stable/generated/torch.compiler.reset.html)
    - [Dealing with recompilations](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html)
    """

    code = "TL507"
    name = "dynamo-reset-in-loop"
    words = (("dynamo.reset", "compiler.reset", "import reset"),)
    project_words = (("for ", "while "),)
    since = (2, 0)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._resets import resetting_loop

        resets = list(module.own_calls(*_RESETS))
        nodes = [call.node for call in resets]
        for call in resets:
            loop = resetting_loop(module, call.node)
            if loop is None:
                continue
            statement = edits.statement_of_call(module, call.node)
            edited = edits.delete_with_block(module, statement) if statement is not None else None
            if edited is not None:
                edited = edits.with_unused_imports(module, edited, call.node.func, nodes)
            yield self.diagnostic(
                module,
                call.node,
                f"`{call.name}()` discards the compile cache at every iteration",
                label="the next iteration recompiles",
                notes=(Note.at(module, loop, "runs at every iteration of the loop"),),
                fix=None
                if edited is None
                else Fix("remove the reset", edited, Applicability.UNSAFE, "keeps compiled code in memory"),
            )
