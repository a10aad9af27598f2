from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.training.steps import TrainingLoop

#: The note on a loss that does not work under autocast.
_PROBABILITIES = (
    "no fix: `binary_cross_entropy` raises an error under autocast; use `BCEWithLogitsLoss` on logits first"
)
#: The note on assignments by index.
_MIXED = "no fix: this assignment raises an error under autocast unless its value is cast with `.to(out.dtype)`"
#: The note where `torch.autocast` and bfloat16 do not exist yet.
_OLD_TORCH = "no fix: the torch of this project is older than 1.10; use `torch.cuda.amp.autocast` with a `GradScaler`"
_WITH_BFLOAT16 = (1, 10)
_HEADER = '{torch}.autocast(device_type="cuda", dtype={torch}.bfloat16)'


class MissingAutocast(Rule):
    """A CUDA training loop runs in float32 without autocast.

    ## What it does
    Flags the first forward pass of a training loop, in the loop or in the functions that it calls, or of a training
    step that other packages call. The program must use CUDA and choose no other precision: no autocast, no
    `GradScaler`, no `half()`, no option for fp16 or bf16, no TF32, no library that chooses the precision itself. If the
    forward pass is in a file without a backward pass, the call that leads to it is flagged.

    Not flagged are

    - networks whose layers are all visibly tiny, or that are built in the function that trains them and never moved;
    - optimizers of an image instead of a network;
    - attacks, whose backward pass only computes the gradient of an input;
    - agents that learn in an environment, because their networks are small;
    - files that need precise results: second derivatives, log-determinants, matrix decompositions, spectra; also
      networks whose file adds up log-determinants, or whose forward pass decomposes matrices.

    ## Why it is slow
    The tensor cores of a GPU multiply 16-bit numbers faster than 32-bit numbers. 16-bit activations need half the
    memory and half the memory traffic. Autocast runs the operations that gain from it in bfloat16. Operations that need
    the range or the precision, such as losses, stay in float32, and so do the weights.

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
    Only the forward pass and the loss belong under autocast; the backward pass uses the dtypes of the forward pass.
    bfloat16 needs no `GradScaler`. GPUs before Ampere have no fast bfloat16: use float16 and
    `torch.amp.GradScaler("cuda")` there. If everything must stay in float32,
    `torch.set_float32_matmul_precision("high")` lets at least matrix products use the tensor cores (TL302).

    ## Fix safety
    Unsafe: outputs and losses are rounded to fewer digits. Outputs become bfloat16, which NumPy does not support. The
    fix wraps the forward pass and the loss only if they are adjacent statements before a single backward pass. No fix
    is offered

    - in a file that uses `nn.DataParallel` or `data_parallel()`: its threads inherit autocast without the dtype;
    - if the device comes from `torch.accelerator`;
    - if the project requires a torch before 1.10, which has only float16 autocast (`torch.cuda.amp.autocast`). It needs
      a `GradScaler`;
    - if binary cross entropy is computed on probabilities, which raises an error under autocast. Move the sigmoid into
      the loss (`BCEWithLogitsLoss`) first;
    - if the program writes the output of a layer into a float32 tensor by index (`out[mask] = layer(x)`, `index_add_`,
      `scatter_`), or a float32 tensor into an output. Both must have the same dtype: cast with `.to(out.dtype)` first.

    ## When to ignore
    - The network is so small that kernel launches take all the time.
    - The task needs float32: physics, normalizing flows, some losses.
    - The GPU has no tensor cores.

    ## Reported elsewhere
    - 1.5x to 5.5x for several networks with float16 (8 NVIDIA V100, 2020):
      [Introducing native PyTorch automatic mixed precision](https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/)

    ## References
    - [Automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html)
    - [Automatic mixed precision examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    """

    code = "TL301"
    name = "missing-autocast"
    words = ("backward(",)
    project_words = (
        "torch",
        ("cuda", "accelerator", ".spawn(", "cudnn", "CUDA_VISIBLE_DEVICES", "DataParallel", "detectron2"),
    )
    since = (1, 6)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.precision import Precision

        steps = {step.place: step for step in reversed(module.fact(Precision).float32_training)}
        for step in reversed(steps.values()):  # one for each forward, which several steps may share
            yield self.diagnostic(
                module,
                step.place,
                "training loop runs in float32 without autocast",
                label="the forward pass runs without autocast"
                if step.place is step.backward
                else "runs without autocast",
                notes=self._notes(module, step),
                fix=self._fix(module, step),
            )

    def _notes(self, module: Module, step: TrainingLoop) -> tuple[Note, ...]:
        from torchlint.model.numerics.precision import Precision

        from ._mixed_writes import MixedWrites

        notes = []
        if step.place is not step.forward:
            notes.append(Note.at(module, step.forward, "the forward pass"))
        if step.place is not step.backward:
            notes.append(Note.at(module, step.backward, "the backward pass"))
        notes.append(Note("nothing sets autocast, TF32 or a 16-bit dtype for this loop"))
        if module.fact(Precision).loses_on_probabilities:
            notes.append(Note(_PROBABILITIES))
        write = module.fact(MixedWrites).first
        if write is not None:
            notes.append(Note.at(module, write, _MIXED))
        if self._is_old(module):
            notes.append(Note(_OLD_TORCH))
        return tuple(notes)

    def _is_old(self, module: Module) -> bool:
        return module.target_torch is not None and module.target_torch < _WITH_BFLOAT16

    def _fix(self, module: Module, step: TrainingLoop) -> Fix | None:
        from torchlint.model.numerics.precision import Precision
        from torchlint.model.tensors.devices import Devices

        from ._autocast_region import forward_and_loss
        from ._mixed_writes import MixedWrites

        if self._is_old(module):
            return None
        if module.fact(Precision).loses_on_probabilities or module.fact(Precision).may_break_autocast:
            return None
        if module.fact(Devices).uses_accelerator:
            return None  # autocast needs the device type, which may not be CUDA
        if any(module.calls("torch.nn.DataParallel", "torch.nn.parallel.data_parallel")):
            return None  # its threads inherit autocast without the dtype, and would compute in float16
        if module.fact(MixedWrites).first is not None:
            return None
        statements = forward_and_loss(module, step)
        named = edits.name_module(module, "torch", step.forward)
        if statements is None or named is None:
            return None
        torch, imported = named
        wrapped = edits.wrap_in_with(module, statements, _HEADER.format(torch=torch))
        if wrapped is None:
            return None
        return Fix(
            "wrap forward pass and loss in `torch.autocast` with bfloat16",
            (*imported, *wrapped),
            Applicability.UNSAFE,
            "rounds activations to bfloat16",
        )
