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
    """A setting for debugging `torch.compile` is left in the code.

    ## What it does
    Flags settings for debugging the compiler that stay in effect:

    - `backend="eager"`, `backend="aot_eager"` and their variants, and `disable=True`;
    - `torch._dynamo.config.disable = True` and `torch._dynamo.config.suppress_errors = True`;
    - the environment variables `TORCHDYNAMO_DISABLE`, `TORCH_COMPILE_DISABLE`, `TORCH_COMPILE_DEBUG` and
      `TORCHDYNAMO_SUPPRESS_ERRORS`, if the code sets them.

    Tests are not flagged. Neither is a setting that depends on a condition or that the file resets later. A comparison,
    in which the same object is also compiled with another backend, is not flagged either.

    ## Why it is slow
    `backend="eager"` traces the code into a graph and then runs that graph operator by operator. The tracing, and the
    guards before each call, add to the eager time, and nothing is fused. `"aot_eager"` does the same with the graphs of
    the forward and the backward pass. With `disable=True` the code is not compiled at all. `suppress_errors = True`
    costs nothing while compilation succeeds. If it fails, the function silently runs eagerly.

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
    Unsafe: the code is then compiled. The first call takes longer, results may round differently, a C++ compiler or
    Triton must be installed, and hidden errors appear. An import that only the deleted statement uses is removed, such
    as `from torch._dynamo import config`.

    ## When to ignore
    Ignore it if the program is not compiled on purpose, for example because a library that it uses fails under the
    compiler.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [torch.compile troubleshooting](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html)
    """

    code = "TL506"
    name = "debug-compile-backend"
    words = (
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
    project_words = ("torch",)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._debugging import in_test, is_intended, names_eager, switches
        from ._sites import CompileSites

        if any(module.imports(name) for name in _TESTS):
            return
        for site in module.fact(CompileSites).all:
            argument = site.debugging
            if argument is None or is_intended(module, site):
                continue
            text = f"{argument.keyword.value}={module.code(argument.value)}" if argument.keyword else ""
            yield self.diagnostic(
                module,
                site.node,
                f"`torch.compile` with `{text}` does not optimize the code",
                label="for debugging only",
                fix=_fix(f"remove `{text}`", _without(module, site, argument)),
            )
        for call in module.own_calls("torch._dynamo.optimize"):
            if names_eager(call.node) and not in_test(module, call.node):
                yield self.diagnostic(
                    module,
                    call.node,
                    f"`torch._dynamo.optimize({module.code(call.node.args[0].value)})` does not optimize the code",
                    label="for debugging only",
                )
        found = list(switches(module))
        nodes = [switch.node for switch, _ in found]
        for switch, effect in found:
            yield self.diagnostic(
                module,
                switch.node,
                f"`{switch.name}` {effect} in the whole program",
                label="for debugging only",
                fix=_fix("remove this setting", _deleted(module, switch.node, nodes)),
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
    caution = "compiles the code: the first call takes longer, results may round differently, hidden errors appear"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)
