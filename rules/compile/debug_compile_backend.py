from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.semantics.switches import Switch

    from ._sites import Compile

#: What each variable or flag does when it is on, and the value that turns it on (None: any).
_VARIABLES = {
    "TORCHDYNAMO_DISABLE": ("1", "nothing is compiled"),
    "TORCH_COMPILE_DISABLE": ("1", "nothing is compiled"),
    "TORCH_COMPILE_DEBUG": ("1", "every compile writes its traces to disk"),
    "TORCHDYNAMO_SUPPRESS_ERRORS": (None, "what fails to compile runs eagerly, without an error"),
}
_FLAGS = {
    "torch._dynamo.config.disable": ("True", "nothing is compiled"),
    "torch._dynamo.config.suppress_errors": ("True", "what fails to compile runs eagerly, without an error"),
}
#: Conditions that pick a debugging back end knowingly.
_KNOWING = re.compile(r"debug|eager|backend|test|mps|win32|windows|darwin|platform|cpu|triton|version|capab", re.I)
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
    compiler or Triton must be there, and an error that was hidden so far appears.

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
        from torchlint.model.training.purpose import Purposes

        from ._sites import CompileSites

        if module.fact(Purposes).is_test or any(module.imports(name) for name in _TESTS):
            return
        for site in module.fact(CompileSites).all:
            argument = site.debugging
            if argument is None or _is_meant(module, site):
                continue
            text = f"{argument.keyword.value}={module.code(argument.value)}" if argument.keyword else ""
            edited = edits.remove_argument(module, site.call, argument) if site.call is not None else None
            yield self.diagnostic(
                module,
                site.node,
                f"compiled with `{text}`, which leaves the code as it is",
                label="for debugging only",
                fix=_fix(f"remove `{text}`", edited),
            )
        for call in module.own_calls("torch._dynamo.optimize"):
            if _names_eager(call.node) and not _in_test(module, call.node):
                yield self.diagnostic(
                    module,
                    call.node,
                    f"compiled with {module.code(call.node.args[0].value)}, which leaves the code as it is",
                    label="for debugging only",
                )
        for switch, effect in _switches(module):
            yield self.diagnostic(
                module,
                switch.node,
                f"`{switch.name}` is on for the whole program",
                label=effect,
                fix=_fix("remove it", edits.delete_statement(module, switch.node)),
            )


def _fix(message: str, edited: edits.Edits | None) -> Fix | None:
    caution = "the code is then really compiled: a longer first call, other rounding, errors that were hidden"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)


def _switches(module: Module) -> Iterator[tuple[Switch, str]]:
    from torchlint.model.semantics.switches import Switches

    for switch in (*module.fact(Switches).variables(*_VARIABLES), *module.fact(Switches).flags(*_FLAGS)):
        wanted, effect = {**_VARIABLES, **_FLAGS}[switch.name]
        if switch.value and wanted in (None, switch.value) and not switch.conditional:
            if not _in_test(module, switch.node):
                yield switch, effect


def _names_eager(call: cst.Call) -> bool:
    import libcst as cst

    from ._sites import EAGER_BACKENDS

    first = call.args[0].value if call.args else None
    text = first.evaluated_value if isinstance(first, cst.SimpleString) else None
    return isinstance(text, str) and EAGER_BACKENDS.fullmatch(text) is not None


def _is_meant(module: Module, site: Compile) -> bool:
    """Whether the debugging back end was chosen knowingly: by a condition, for comparison, with a reason given."""
    import libcst as cst

    from torchlint.model.semantics.value import Device

    from ._sites import CompileSites

    if _in_test(module, site.node):
        return True
    if site.option("disable") is site.debugging and module.comment_on(site.node):
        return True  # `disable=True  # LSTMs do not compile`
    if not isinstance(site.target, cst.FunctionDef) and module.value(site.target).device is Device.MPS:
        return True
    for above in module.tree.ancestors(site.node):
        if isinstance(above, (cst.If, cst.IfExp)) and _KNOWING.search(module.code(above.test)):
            return True
        if isinstance(above, cst.ExceptHandler):
            return True
    for other in module.fact(CompileSites).for_speed:
        if module.tree.exclusive(site.node, other.node) or _target(module, site) == _target(module, other):
            return True
    return False


def _target(module: Module, site: Compile) -> str:
    import libcst as cst

    return site.target.name.value if isinstance(site.target, cst.FunctionDef) else module.code(site.target)


def _in_test(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    return function is not None and function.name.value.startswith("test")
