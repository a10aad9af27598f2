from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._sites import Compile

_TESTS = ("torch._dynamo.testing", "torch._dynamo.test_case")


class DebugCompileBackend(Rule):
    """A switch for debugging `torch.compile` was left in.

    ## What it does
    Flags what is there to find errors of the compiler, where it stays in force: `backend="eager"` and
    `backend="aot_eager"` (and their relatives), `disable=True`, `torch._dynamo.config.disable = True`,
    `torch._dynamo.config.suppress_errors = True`, and the environment variables `TORCHDYNAMO_DISABLE`,
    `TORCH_COMPILE_DISABLE`, `TORCH_COMPILE_DEBUG` and `TORCHDYNAMO_SUPPRESS_ERRORS`, set in code.

    Tests are left alone, and so is a switch that hangs on a condition, that is set back later in the file, or that
    stands beside a compile of the same thing with another back end (a comparison).

    ## Why it is slow
    `backend="eager"` traces the code into a graph and then runs that graph operator by operator: the tracing and the
    checks before each call come on top of the eager time, and nothing is fused. `"aot_eager"` does the same with the
    graphs of the forward and the backward pass. With `disable=True` the code is not compiled at all.
    `suppress_errors = True` costs nothing while compiling works. Where it does not, that function silently stays
    eager.

    ## Example
    ```python
    torch._dynamo.config.suppress_errors = True
    model = torch.compile(model, backend="aot_eager")
    ```

    ## Use instead
    ```python
    model = torch.compile(model)
    ```
    To debug, set a variable for one run: `TORCH_LOGS="graph_breaks,recompiles" python train.py`.

    ## Fix safety
    Unsafe: the code is then really compiled. The first call takes longer, results may round differently, a C++
    compiler or Triton must be there, and an error that was hidden so far appears. What only the deleted statement uses
    of a package (`from torch._dynamo import config`) is no longer imported.

    ## When to ignore
    When the program cannot be compiled on purpose: a library that it uses breaks under the compiler.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [torch.compile troubleshooting](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html)
    """

    code = "TL506"
    name = "debug-compile-backend"
    words = (
        "torch",
        (
            'backend="eager',
            "backend='eager",
            'backend="aot_eager',
            "backend='aot_eager",
            'backend="pre_dispatch_eager',
            'optimize("',
            "optimize('",
            "compile(disable",
            ", disable=True",
            "disable=True,",
            "suppress_errors = True",
            "suppress_errors=True",
            "config.disable",
            "TORCHDYNAMO_DISABLE",
            "TORCH_COMPILE_D",
            "TORCHDYNAMO_SUPPRESS_ERRORS",
        ),
    )
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._debugging import in_test, is_meant, names_eager, switches
        from ._sites import CompileSites

        if any(module.imports(name) for name in _TESTS):
            return
        for site in module.fact(CompileSites).all:
            argument = site.debugging
            if argument is None or is_meant(module, site):
                continue
            text = f"{argument.keyword.value}={module.code(argument.value)}" if argument.keyword else ""
            yield self.diagnostic(
                module,
                site.node,
                f"compiled with `{text}`, which leaves the code as it is",
                label="for debugging only",
                fix=_fix(f"remove `{text}`", _without(module, site, argument)),
            )
        for call in module.own_calls("torch._dynamo.optimize"):
            if names_eager(call.node) and not in_test(module, call.node):
                yield self.diagnostic(
                    module,
                    call.node,
                    f"compiled with {module.code(call.node.args[0].value)}, which leaves the code as it is",
                    label="for debugging only",
                )
        found = list(switches(module))
        nodes = [switch.node for switch, _ in found]
        for switch, effect in found:
            yield self.diagnostic(
                module,
                switch.node,
                f"`{switch.name}` is on for the whole program",
                label=effect,
                fix=_fix("remove it", _deleted(module, switch.node, nodes)),
            )


def _without(module: Module, site: Compile, argument: cst.Arg) -> edits.Edits | None:
    """Drop an argument; the parentheses go with the last one of a decorator."""
    import libcst as cst

    if site.call is None:
        return None
    if isinstance(site.node, cst.Decorator) and len(site.call.args) == 1:
        return edits.remove_arguments(module, site.call)
    return edits.remove_argument(module, site.call, argument)


def _deleted(module: Module, statement: cst.CSTNode, switches: list[cst.CSTNode]) -> edits.Edits | None:
    """Delete a statement that sets one of the switches and nothing else, with an import that only they use."""
    import libcst as cst

    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    used = target.value if isinstance(target, cst.Subscript) else target
    deleted = edits.delete_statement(module, statement) if isinstance(used, (cst.Attribute, cst.Name)) else None
    return None if deleted is None else edits.with_unused_imports(module, deleted, used, switches)


def _fix(message: str, edited: edits.Edits | None) -> Fix | None:
    caution = "the code is then really compiled: a longer first call, other rounding, errors that were hidden"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)
