from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_SEQUENTIAL = "torch.utils.checkpoint.checkpoint_sequential"


class ReentrantCheckpoint(Rule):
    """Activation checkpointing uses the reentrant variant.

    ## What it does
    Flags calls of `torch.utils.checkpoint.checkpoint` and `checkpoint_sequential` that do not pass `use_reentrant`, or
    pass `True`.

    ## Why it is slow
    The reentrant variant repeats the whole checkpointed function in the backward pass, and starts a backward pass
    inside the backward pass. The other one stops as soon as it has all activations that gradients need: the last
    layer of the function, often a large matrix product, is not computed again.

    Without the argument torch also warns at run time. And the reentrant variant gives no gradients at all, with a
    warning, if none of its inputs requires one (a frozen embedding before it is enough).

    ## Example
    ```python
    hidden = checkpoint(block, hidden)
    ```

    ## Use instead
    ```python
    hidden = checkpoint(block, hidden, use_reentrant=False)
    ```

    ## Fix safety
    Unsafe: the function runs with gradients recorded, so that code in it that asks `torch.is_grad_enabled()` or
    registers hooks behaves otherwise; parameters that had no gradients for want of an input that requires them get
    some; and a function that saves other tensors when it runs again is now an error.

    ## When to ignore
    When the function does not repeat itself exactly, or when a library around it (offloading, some sharded training)
    asks for the reentrant variant.

    ## References
    - [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html)
    """

    code = "TL411"
    name = "reentrant-checkpoint"
    default = Default.OPT_IN
    words = ("torch.utils", ("utils.checkpoint", "utils import checkpoint", ", checkpoint"))
    since = (2, 1)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.semantics.gates import Gates

        for call in module.own_calls(_CHECKPOINT, _SEQUENTIAL):
            argument = call.argument("use_reentrant")
            if argument.node is None:
                if _hidden(call):
                    continue
                label = "`use_reentrant` is not given, so it is True"
                edited = edits.add_keyword(module, call.node, "use_reentrant", "False")
            elif argument.literal() in ("True", "None"):
                label = f"`use_reentrant` is {argument.literal()}"
                edited = edits.replace(module, argument.node.value, "False")
            else:
                continue
            if module.fact(Gates).for_other_versions(call.node):
                continue
            yield self.diagnostic(
                module,
                call.node,
                "the backward pass repeats all of the checkpointed function",
                label=label,
                fix=_fix(edited),
            )


def _hidden(call: Call) -> bool:
    """Whether unpacked arguments may hold `use_reentrant`; `checkpoint` does not take it by position."""
    stars = {argument.star for argument in call.node.args} - {""}
    return bool(stars if call.name == _SEQUENTIAL else stars - {"*"})


def _fix(edited: edits.Edits | None) -> Fix | None:
    caution = "runs the function with gradients recorded, and checks that it repeats itself"
    return None if edited is None else Fix("pass `use_reentrant=False`", edited, Applicability.UNSAFE, caution)
