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
    """Reentrant `checkpoint` recomputes the whole function in the backward pass.

    ## What it does
    Flags calls of `torch.utils.checkpoint.checkpoint` and `checkpoint_sequential` without `use_reentrant`, or with
    `use_reentrant=True`.

    ## Why it is slow
    The reentrant variant recomputes the whole checkpointed function in the backward pass, and starts a backward pass
    inside the backward pass. The non-reentrant variant stops as soon as it has all activations that the gradients need.
    It does not recompute the last layer of the function, which is often a large matrix product.

    Without the argument, torch also emits a warning at run time. The reentrant variant computes no gradients at all,
    with a warning, if none of its inputs requires one. A frozen embedding before it is enough.

    ## Example
    ```python
    hidden = checkpoint(block, hidden)
    ```

    ## Use instead
    ```python
    hidden = checkpoint(block, hidden, use_reentrant=False)
    ```

    ## Fix safety
    Unsafe: the function runs with gradients recorded. Code in it that calls `torch.is_grad_enabled()` or registers
    hooks then behaves differently. Parameters that had no gradients, because no input required them, get gradients. A
    function that saves other tensors when it is recomputed raises an error.

    ## When to ignore
    Ignore it if the recomputation does not repeat the function exactly, or if a library around it (offloading, some
    sharded training) requires the reentrant variant. Small networks, where the host is the limit, become slower: 0.75x
    for 8 blocks 256 wide on an NVIDIA H200.

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
        from torchlint.model.program.version_checks import VersionChecks
        from torchlint.model.syntax.dotted import last_part

        for call in module.own_calls(_CHECKPOINT, _SEQUENTIAL):
            argument = call.argument("use_reentrant")
            if argument.node is None:
                if _hidden(call):
                    continue
                label, message = "`use_reentrant` defaults to True", "add `use_reentrant=False`"
                edited = edits.add_keyword(module, call.node, "use_reentrant", "False")
            elif argument.literal() in ("True", "None"):
                label, message = f"`use_reentrant` is {argument.literal()}", "set `use_reentrant=False`"
                edited = edits.replace(module, argument.node.value, "False")
            else:
                continue
            if module.fact(VersionChecks).for_other_versions(call.node):
                continue
            yield self.diagnostic(
                module,
                call.node,
                f"reentrant `{last_part(call.name)}` recomputes the whole function in the backward pass",
                label=label,
                fix=_fix(message, edited),
            )


def _hidden(call: Call) -> bool:
    """Whether unpacked arguments may contain `use_reentrant`; `checkpoint` does not accept it by position."""
    stars = {argument.star for argument in call.node.args} - {""}
    return bool(stars if call.name == _SEQUENTIAL else stars - {"*"})


def _fix(message: str, edited: edits.Edits | None) -> Fix | None:
    caution = "records gradients in the function, and raises an error if recomputation saves other tensors"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)
