from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: A norm or a sum of squares of a gradient, in one row.
_NORM = re.compile(r"\.grad\b[^\n]{0,80}(?:norm|sum)\(|norm\([^\n]{0,80}\.grad\b|sum\([^\n]{0,80}\.grad\b")


class PerParameterNorm(Rule):
    """The norm of the gradients is read on the host parameter by parameter.

    ## What it does
    Flags `p.grad.norm().item()`, `float(torch.norm(p.grad))` and `(p.grad ** 2).sum().item()` in a loop over parameters
    that adds the numbers up or collects them in a list or a meter, and `torch.tensor([p.grad.norm() for p in ...])`,
    which reads each norm to put it into a tensor on the CPU: in a training step, in a function that one calls,
    also in another file, and in a function that is named for it (`get_grad_norm`) where no call is seen.

    Not reported: norms that are logged with the name of each layer, norms at some steps only, and loops that keep
    tensors (`torch.stack([...])`).

    ## Why it is slow
    Each parameter takes one small kernel and one copy to the host, which waits until the GPU has finished all kernels
    before it. A network has hundreds of parameters. `torch.nn.utils.get_total_norm` computes all norms with a few
    kernels and does not wait.

    ## Example
    ```python
    total = 0.0
    for p in model.parameters():
        total += p.grad.norm(2).item() ** 2
    total = total**0.5
    ```

    ## Use instead
    ```python
    total = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    ```
    Before torch 2.6: `torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"))` returns the same norm. If the
    gradients are clipped anyway, use what `clip_grad_norm_` returns. Read the tensor only at the steps that log it.

    ## Fix safety
    Advice: the loop often clips or skips gradients as well, and what follows expects a number or a tensor.

    ## When to ignore
    When the gradients are sharded and the norm is summed over processes in between.

    ## References
    - [torch.nn.utils.get_total_norm](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html)
    - [torch.nn.utils.clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    code = "TL212"
    name = "per-parameter-norm"
    words = ("for ", ".grad", _NORM, (".item()", "float(", "ensor(["))
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._norm_reads import NormReads

        if not module.uses_torch:
            return
        for read in module.fact(NormReads).all():
            notes = [Note.at(module, read.loop, "one parameter per iteration of the loop")]
            if read.step is not None and read.step.step is not read.loop:
                notes.append(Note.at(module, read.step.step, "runs at every training step"))
            yield self.diagnostic(
                module,
                read.call,
                "the norm of each gradient is copied to the host, one parameter after the other",
                label="waits for the GPU once per parameter",
                notes=tuple(notes),
            )
