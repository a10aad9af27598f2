from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.training.steps import TrainingLoop

#: The note on what must change before autocast works.
_PROBABILITIES = (
    "binary cross entropy on probabilities raises an error under autocast: use `BCEWithLogitsLoss` on logits first",
)
#: The note on writes by index.
_MIXED = "a write by index raises an error under autocast: cast what is written with `.to(out.dtype)` first"
_HEADER = '{torch}.autocast(device_type="cuda", dtype={torch}.bfloat16)'


class MissingAutocast(Rule):
    """A CUDA training loop computes wholly in float32.

    ## What it does
    Flags the first forward call of a training loop, in the loop or in the functions that it calls, in a file that uses
    CUDA and nowhere speaks of another precision: no autocast, no gradient scaler, no `half()`, no option for fp16 or
    bf16, no TF32, no library that chooses the precision by itself. Where the forward is in a file without a backward
    pass, the call that leads to it is flagged. Left alone are networks whose layers are all visibly tiny, optimizers of
    an image instead of a network, and files that need the digits: second derivatives, log-determinants, matrix
    decompositions, spectra.

    ## Why it is slow
    The tensor cores of a GPU multiply 16-bit numbers faster than 32-bit ones, and 16-bit activations
    need half the memory and half the traffic. Autocast runs the operations that gain from it in bfloat16 and leaves
    those that need the range or the digits, such as losses, in float32. The weights stay in float32.

    ## Example
    ```python
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss.backward()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        loss.backward()
    ```
    Only forward and loss belong under autocast; the backward pass uses the types of the forward by itself. With
    bfloat16 no gradient scaler is needed. GPUs before Ampere have no fast bfloat16: use float16 and
    `torch.amp.GradScaler("cuda")` there. Where everything must stay in float32,
    `torch.set_float32_matmul_precision("high")` lets at least matrix products use the tensor cores (TL302).

    ## Fix safety
    Unsafe: outputs and losses are rounded to fewer digits, and outputs become bfloat16, which NumPy does not know.
    The fix wraps forward and loss only where they are neighbouring statements before a single backward pass, and
    never in a file that uses `nn.DataParallel`: its threads take autocast over without the dtype. No fix is offered
    where the device comes from `torch.accelerator`, or where binary cross entropy is computed on probabilities, which
    raises an error under autocast: move the sigmoid into the loss (`BCEWithLogitsLoss`) first. Nor is it offered where
    the program writes the output of a layer into a float32 tensor by index (`out[mask] = layer(x)`, `index_add_`,
    `scatter_`), or a float32 tensor into an output: both must have one format, so cast with `.to(out.dtype)` first.

    ## When to ignore
    When the network is so small that launching its kernels takes all the time, when the task needs float32 (physics,
    normalizing flows, some losses), or on GPUs without tensor cores.

    ## References
    - [Automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html)
    - [Automatic mixed precision examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    """

    code = "TL301"
    name = "missing-autocast"
    words = ("torch", "backward(")
    project_words = (("cuda", "accelerator", ".spawn(", "cudnn", "CUDA_VISIBLE_DEVICES"),)
    since = (1, 10)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.mixed_writes import MixedWrites
        from torchlint.model.numerics.precision import Precision

        steps = {step.place: step for step in reversed(module.fact(Precision).float32_training)}
        for step in reversed(steps.values()):  # one for each forward, which several steps may share
            yield self.diagnostic(
                module,
                step.place,
                "training loop runs in float32 without autocast",
                label="backward pass of a forward pass without autocast"
                if step.place is step.backward
                else "forward pass without autocast",
                notes=(
                    *((Note.at(module, step.forward, "the forward pass"),) if step.place is not step.forward else ()),
                    *(
                        (Note.at(module, step.backward, "its output is propagated backward"),)
                        if step.place is not step.backward
                        else ()
                    ),
                    Note("nothing in this program chooses a precision"),
                    *(Note(text) for text in _PROBABILITIES if module.fact(Precision).loses_on_probabilities),
                    *(
                        Note.at(module, write, _MIXED)
                        for write in (module.fact(MixedWrites).first,)
                        if write is not None
                    ),
                ),
                fix=self._fix(module, step),
            )

    def _fix(self, module: Module, step: TrainingLoop) -> Fix | None:
        from torchlint.model.data.devices import Devices
        from torchlint.model.numerics.mixed_writes import MixedWrites
        from torchlint.model.numerics.precision import Precision
        from torchlint.model.training.steps import Steps

        if module.fact(Precision).loses_on_probabilities or module.fact(Precision).may_break_autocast:
            return None
        if module.fact(Devices).uses_accelerator:
            return None  # autocast needs the device type, which may not be CUDA
        if any(module.calls("torch.nn.DataParallel")):
            return None  # its threads take autocast over without the dtype, and would compute in float16
        if module.fact(MixedWrites).first is not None:
            return None
        statements = module.fact(Steps).forward_and_loss(step)
        named = edits.name_module(module, "torch", step.forward)
        if statements is None or named is None:
            return None
        torch, imported = named
        wrapped = edits.wrap_in_with(module, statements, _HEADER.format(torch=torch))
        if wrapped is None:
            return None
        return Fix(
            "run forward and loss under autocast in bfloat16",
            (*imported, *wrapped),
            Applicability.UNSAFE,
            "rounds activations and loss to bfloat16",
        )
