from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class EvaluationOutsideAutocast(Rule):
    """A program trains a network under autocast, and evaluates it in float32.

    ## What it does
    Flags a forward pass in an evaluation loop or in a function that it calls, under `no_grad` or `inference_mode`,
    that is outside of the autocast under which the training loop runs the same network. Flags the forward pass of a
    teacher, reference or momentum network of such a training step as well, if it is outside of the autocast.

    Not reported are networks that enter autocast in their own `forward`, networks and functions that choose a 16-bit
    or 64-bit format, and code in a `with` statement that may be an autocast. Neither are programs whose training only
    enters `autocast()` of an object that is not seen, such as an `accelerator`: it may be off by default.

    ## Why it is slow
    The evaluation does not use the 16-bit tensor cores, for which the training was changed, and needs twice the memory
    for activations. Without a backward pass there is also no gradient to lose in float16.

    ## Example
    ```python
    with torch.no_grad():
        for images, labels in validation:
            hits += (model(images).argmax(1) == labels).sum()
    ```

    ## Use instead
    ```python
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for images, labels in validation:
            hits += (model(images).argmax(1) == labels).sum()
    ```
    Use the dtype of the training loop. In an evaluation, the autocast can be around the whole loop: weights that do not
    change are then cast once and not at every batch. Cast the outputs with `.float()` before sums over many batches.

    ## Fix safety
    No fix: outputs become 16-bit tensors, and NumPy has no bfloat16. Whether metrics may change by rounding is up to
    the project.

    ## When to ignore
    When the evaluation must be in float32, such as for a published result, or takes a small part of the time.

    ## References
    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
    """

    code = "TL312"
    name = "evaluation-outside-autocast"
    default = Default.INFO
    words = (("no_grad", "inference_mode", "set_grad_enabled"),)
    project_words = ("torch", "autocast", ".backward(")
    since = (1, 6)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._outside_autocast import OutsideAutocast

        for found in module.fact(OutsideAutocast).all():
            network = module.code(found.network)
            role = "teacher" if found.is_teacher else "evaluation"
            yield self.diagnostic(
                module,
                found.call,
                f"{role} runs `{network}` in float32, but training uses autocast",
                label="outside of the autocast",
                notes=(Note.at(module, found.training, "training runs the forward pass under autocast"),),
            )
