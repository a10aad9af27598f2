from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._split_backwards import SplitBackward


class SeparateBackwards(Rule):
    """Several losses of a step each have a backward pass, where one pass of their sum computes the same gradients.

    ## What it does
    Flags `first.backward(retain_graph=True)` that is followed by `second.backward()` in the same block, if nothing
    between the two passes needs the gradients of the first one. The second loss may be a penalty on the gradient of the
    input, as `torch.autograd.grad` leaves the gradients of the weights unchanged.

    Not reported are passes with a step of an optimizer, `zero_grad()`, clipping, a hook or any other use of gradients
    between them, passes with gradients as arguments, passes without `retain_graph=True`, which share no graph, and
    penalties on the gradient of another forward pass.

    ## Why it is slow
    `backward()` adds to the gradients, so that two passes give the gradients of the sum. Each pass repeats the
    layers that the losses share, and computes the gradients of their weights again. For a large trunk with small heads,
    two passes take nearly twice the time of one.

    ## Example
    ```python
    class_loss.backward(retain_graph=True)
    box_loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    (class_loss + box_loss).backward()
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: the gradients are the same except for rounding. The sum fails if the losses are on different devices. No fix
    is offered if a loss gets a new value between the passes, or where a comment would be lost.

    ## When to ignore
    When a hook that torchlint does not see needs the gradients of each loss, or when the losses are on different
    devices.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    """

    code = "TL413"
    name = "separate-backwards"
    words = (".backward(", ("retain_graph=True", "retain_graph = True", "backward(None, True"))
    project_words = ("torch",)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._split_backwards import SplitBackwards

        for found in module.fact(SplitBackwards).all():
            first, *others = found.calls
            yield self.diagnostic(
                module,
                first,
                f"{len(found.calls)} backward passes through one graph, where one pass of the summed losses is enough",
                label="each pass repeats the shared layers",
                notes=tuple(Note.at(module, call, "also passes through the graph") for call in others),
                fix=_fix(module, found),
            )


def _fix(module: Module, found: SplitBackward) -> Fix | None:
    from ._split_backwards import summed

    text = summed(module, found)
    if text is None or not found.can_be_summed:
        return None
    edited = edits.replace(module, found.calls[-1], text)
    for line in found.statements[:-1]:
        deleted = edits.delete_statement(module, line.body[0])
        if deleted is None:
            return None
        edited += deleted
    caution = "gradients differ by rounding; fails if the losses are on different devices"
    return Fix(f"call `{text}` once", edited, Applicability.UNSAFE, caution)
