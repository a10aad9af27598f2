from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: `total += loss`, `total = total + loss` and `losses.append(loss)`, perhaps times or divided by a number.
_KEPT = re.compile(
    r"^[ \t]*(?:(\w+)[ \t]*\+=[ \t]*\(?|(\w+)[ \t]*=[ \t]*\2[ \t]*\+[ \t]*|(\w+)\.append\()"
    r"(?:[\w.]+(?:\([\w.]*\))?[ \t]*\*[ \t]*)?[A-Za-z_]\w*[ \t]*(?:\)|[*/;#\r\n]|\Z)",
    re.MULTILINE,
)


class GraphRetention(Rule):
    """A sum or list of losses keeps the autograd graph of every training step.

    ## What it does
    Flags `total += loss`, `total = total + loss` and `losses.append(loss)` in a training loop, where `loss` is the
    tensor on which the same step calls `backward()`, and the sum or list begins before the loop.

    Not reported: sums on which a backward pass is called later, sums that the loop sets back or converts, losses that
    are detached or converted to numbers, and sums under `torch.no_grad()`.

    ## Why it is slow
    The loss refers to its graph: one node for each operation of the forward pass. `backward()` frees the tensors that
    the nodes have saved, but not the nodes. The sum keeps the nodes of all steps alive, and adds one of its own for
    each step, so that the memory of the host grows with every step: by about a kilobyte for each layer. A long run may
    run out of memory. Where a step has no backward pass on a part of the graph, its activations stay on the GPU too.

    ## Example
    ```python
    total = 0.0
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss
    ```

    ## Use instead
    ```python
    total = 0.0
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    ```

    ## Fix safety
    Unsafe: the sum, or the items of the list, no longer have a gradient. No code that is seen needs one.

    ## When to ignore
    When code that is not seen calls `backward()` on the sum.

    ## References
    - [FAQ: my model reports "cuda runtime error(2): out of memory"](https://docs.pytorch.org/docs/stable/notes/faq.html)
    - [torch.Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "TL405"
    name = "graph-retention"
    words = ("backward(", ("for ", "while "), _KEPT)
    project_words = ("torch",)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._running_losses import RunningLosses

        if not module.uses_torch:
            return
        for kept in module.fact(RunningLosses).all():
            end = module.span(kept.loss)[1]
            yield self.diagnostic(
                module,
                kept.loss,
                f"`{kept.kept_in}` keeps the autograd graph of every training step",
                label=f"{'the list keeps' if kept.is_list else 'the sum keeps'} this tensor with its graph",
                notes=(
                    Note.at(module, kept.backward, "the gradients of this step are computed"),
                    Note.at(module, kept.step, "the step begins"),
                ),
                fix=Fix(
                    "detach the loss",
                    (Edit(end, end, ".detach()"),),
                    Applicability.UNSAFE,
                    f"`{kept.kept_in}` has no gradient",
                ),
            )
