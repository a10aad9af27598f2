from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Default, Diagnostic, Note, Rule

from ._print_words import F_STRINGS, FORMATS, shows_tensor

if TYPE_CHECKING:
    from torchlint.model.module import Module


class TensorPrintInLoop(Rule):
    """A GPU tensor that is printed or logged at every training step waits for the GPU.

    ## What it does
    Flags the loss of a training step (also `losses["total"]`), a loss that is added to it, an output of its network, a
    mean, sum, norm, maximum or minimum of what is computed from them (`accuracy = hits.sum() / len(hits)`, also in a
    function of the program), a running sum of them (`total += loss.detach()`), the norm of the gradients that
    `clip_grad_norm_` returns, the mean of a meter that is given them (`top1.avg`), or a dictionary of them or its
    values (`for name, value in losses.items():`), at every step in

    - `print` and `logging`;
    - the progress bar of `tqdm`: `set_postfix`, `set_description`;
    - TensorBoard and trackers: `add_scalar`, `add_scalars`, `wandb.log`, `mlflow.log_metric`;
    - a text, wherever it is used: an f-string, a `%` format or `str.format`.

    Not reported: numbers that were read before, by `.item()` (see TL201); shapes; calls that run only at some steps
    (under a step counter, a rank or an exception), once per epoch or in validation; steps that train on the CPU (see
    TL201); `self.log` of Lightning, which reads later.

    The calls of one training loop are one finding, at the first of them; notes show the others.

    ## Why it is slow
    To show a number, the CPU must wait until the GPU has computed it. Until then it queues no kernels, and after that
    the GPU waits for the CPU. A step with few, large kernels loses little.

    ## Example
    ```python
    for step, (images, labels) in enumerate(bar):
        loss = train_step(images, labels)
        bar.set_postfix(loss=f"{loss:.3f}")
    ```

    ## Use instead
    ```python
    for step, (images, labels) in enumerate(bar):
        loss = train_step(images, labels)
        if step % 50 == 0:
            bar.set_postfix(loss=f"{loss:.3f}")
    ```

    ## Fix safety
    Advice, no fix: how often a value is shown is a choice.

    ## When to ignore
    Ignore it if a step takes so long that one wait does not matter.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "TL202"
    name = "tensor-print-in-loop"
    default = Default.INFO
    words = (
        (
            *("print(", ".info(", ".warning(", ".set_postfix", ".set_description", ".add_scalar", ".write("),
            *(".log_metric", ".log_value(", "wandb.log(", *FORMATS, *F_STRINGS),
        ),
    )
    project_words = (
        ("torch", "transformers"),
        ("backward(", "def training_step(", "def train_step(", "def compute_loss("),
    )
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether something that is called like a loss or an output is printed or logged."""
        return super().may_concern(text) and shows_tensor(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._shown_tensors import ShownTensors

        for found in module.fact(ShownTensors).all():
            place = module.tree.index(found.step.step)
            yield self.diagnostic(
                module,
                found.tensor,
                f"`{module.code(found.by.func)}` reads `{module.code(found.tensor)}` from the GPU at every step"
                if found.by is not None
                else f"a text of `{module.code(found.tensor)}` reads it from the GPU at every step",
                label="device-to-host sync",
                notes=(Note.at(module, found.step.step, "the training step starts"),),
                cause=Cause(place, "also synchronizes"),
            )
