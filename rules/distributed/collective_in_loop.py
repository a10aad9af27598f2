from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class CollectiveInLoop(Rule):
    """All processes exchange a small value, or wait for each other, at every training step.

    ## What it does
    Flags in training steps, and in the functions that they call

    - `torch.distributed.barrier()` and `accelerator.wait_for_everyone()`;
    - `all_reduce`, `reduce` and `accelerator.gather` of a value on which no gradient and no condition depends, such as
      a loss for the log, also in a `torch.autograd.Function` of the program, `all_gather_object`, and `all_gather` of
      what `pickle.dumps` gives;
    - `all_reduce` or `accelerator.reduce` of the gradient of one parameter, in a loop over all parameters or over those
      that are trained;
    - `self.log(..., sync_dist=True)` in `training_step` of Lightning, unless `on_step=False`.

    Not reported: operations that run every n-th step, at the end of an epoch, or for a log interval; and operations in
    networks and losses. A step is reported once.

    ## Why it is slow
    A collective operation ends when the slowest process has reached it. Each one needs a round of messages, however
    small the value is, and later work on the GPU waits for it. `barrier()` and `.item()` of the result also make the
    CPU wait, so that it cannot queue work in advance. `DistributedDataParallel` combines many gradients into one
    message, and sends it during the backward pass.

    ## Example
    ```python
    for step, (images, labels) in enumerate(loader):
        loss = train_step(images, labels)
        torch.distributed.all_reduce(loss)
        meter.update(loss.item() / world_size)
    ```

    ## Use instead
    ```python
    for step, (images, labels) in enumerate(loader):
        total += train_step(images, labels).detach()
    torch.distributed.all_reduce(total)
    meter.update(total.item() / len(loader) / world_size)
    ```
    Or exchange the value every 50 steps. With Lightning, pass `on_step=False, on_epoch=True`.

    ## Fix safety
    Advice only: what is logged, and how often, changes. It takes several GPUs to show the effect, so that there are no
    measurements.

    ## When to ignore
    When the value is needed at every step, or the network takes so long that the exchange does not count.

    ## References
    - [Distributed communication package](https://docs.pytorch.org/docs/stable/distributed.html)
    - [Logging, Lightning](https://lightning.ai/docs/pytorch/stable/extensions/logging.html)
    """

    code = "TL815"
    name = "collective-in-loop"
    default = Default.INFO
    words = ((".backward(", ".step(", "scaler(", "def training_step", "def train_step"),)
    project_words = (
        (
            *("barrier(", "all_reduce(", ".reduce(", "sync_dist", "_object(", "pickle.dumps("),
            *("wait_for_everyone(", "accelerator.gather", "accelerator.reduce"),
        ),
    )

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._collectives import Collectives

        for found in module.fact(Collectives).all:
            yield self.diagnostic(
                module,
                found.call,
                f"{found.kind.value} at every training step",
                label="all processes take part",
                notes=(
                    *(
                        (Note.at(module, found.operation, "the operation"),)
                        if found.operation is not found.call
                        else ()
                    ),
                    Note.at(module, found.step, "the training step"),
                ),
                cause=Cause(found.whole, "also at every step"),
            )
