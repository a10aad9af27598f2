from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_MODES = frozenset({"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"})
_BACKENDS = frozenset({"inductor", "eager", "aot_eager", "cudagraphs", "onnxrt", "openxla", "tvm", "tensorrt"})


class PositionalCompileMode(Rule):
    """`torch.compile` takes its options only by keyword: `torch.compile(model, "reduce-overhead")` raises.

    ## What it does
    Flags a second positional argument of `torch.compile`, a string as its first one (`@torch.compile("max-autotune")`),
    and positional arguments of `model.compile(...)` of an `nn.Module`.

    Not reported: calls with `*args`, and `compile` methods of other classes or of classes that define their own.

    ## Why it is slow
    The call raises TypeError. In a `try` block that catches it, the model runs uncompiled, and nothing shows that.

    ## Example
    ```python
    model = torch.compile(model, "reduce-overhead")
    ```

    ## Use instead
    ```python
    model = torch.compile(model, mode="reduce-overhead")
    ```

    ## Fix safety
    Safe or unsafe: safe where the error ends the program. Unsafe in a `try` block, where the model is compiled after
    the fix. No fix is offered for a value that is not a known mode or backend.

    ## When to ignore
    When the error is expected, as in a test.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    """

    code = "TL508"
    name = "positional-compile-mode"
    words = (
        ".compile(",
        re.compile(r"\.compile\((?<!\bre\.compile\()(?:[^()'\"=#]|\([^()]{0,200}\)){0,200}['\"]"),
    )
    project_words = ("torch",)
    since = (2, 0)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for call in module.own_methods("compile"):
            argument = _misplaced(module, call) if not call.opaque else None
            if argument is None:
                continue
            node, keyword = call.node, _keyword(argument)
            yield self.diagnostic(
                module,
                argument,
                f"`{module.code(node.func)}` takes `{keyword or 'mode'}` only by keyword; this call raises TypeError",
                label=f"passed by position: `{module.code(argument.value)}`",
                fix=_fix(module, node, argument, keyword),
            )


def _misplaced(module: Module, call: Call) -> cst.Arg | None:
    """The positional argument that a call of `torch.compile`, or of a module's `compile`, does not take."""
    import libcst as cst

    from torchlint.model.semantics.knowledge import Kind

    given = [item for item in call.node.args if item.keyword is None]
    name = module.name_of(call.node.func)
    if name == "torch.compile":
        if given and isinstance(given[0].value, cst.SimpleString):
            return given[0]
        return given[1] if len(given) > 1 and isinstance(given[1].value, cst.SimpleString) else None
    if name is not None or not given:
        return None
    owner = module.value(call.receiver)
    if owner.kind is not Kind.MODULE or not owner.sure or module.definitions.called(call.node, module.values):
        return None
    if owner.definition is None and not owner.name.startswith("torch.nn."):
        return None
    return given[0] if isinstance(given[0].value, cst.SimpleString) and _keyword(given[0]) else None


def _keyword(argument: cst.Arg) -> str | None:
    """The parameter that a string is meant for."""
    import libcst as cst

    value = argument.value.evaluated_value if isinstance(argument.value, cst.SimpleString) else None
    if not isinstance(value, str):
        return None
    return "mode" if value in _MODES else "backend" if value in _BACKENDS else None


def _fix(module: Module, node: cst.Call, argument: cst.Arg, keyword: str | None) -> Fix | None:

    from torchlint.model.syntax.calls import keywords_of
    from torchlint.model.syntax.climbing import nearest
    from torchlint.model.syntax.nodes import TRIES

    if keyword is None or keyword in keywords_of(node):
        return None
    if sum(item.keyword is None for item in node.args) > node.args.index(argument) + 1:
        return None  # another one follows
    caught = nearest(module.tree, node, *TRIES) is not None
    return Fix(
        f"pass `{keyword}=`",
        edits.name_argument(module, argument, keyword),
        Applicability.UNSAFE if caught else Applicability.SAFE,
        "the model is compiled" if caught else "",
    )
