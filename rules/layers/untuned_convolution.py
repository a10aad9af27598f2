from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_FLAG = "torch.backends.cudnn.benchmark"


class UntunedConvolution(Rule):
    """Convolutions of images of one size run with the kernels that cuDNN guesses, not with those that are fastest.

    ## What it does
    Flags the first forward of a loop on CUDA that runs a convolutional network, where transforms or the data set show
    that all images have one size and nothing in the file sets `torch.backends.cudnn.benchmark`. In a file with such a
    loop, also flags `torch.backends.cudnn.benchmark = False` and `torch.backends.cudnn.enabled = False` where no
    comment, condition, seed or wish for determinism says why.

    ## Why it is slow
    cuDNN has many kernels for one convolution and picks one by rules of thumb. With `benchmark` on, it runs them all
    when it first meets a shape, and keeps the fastest. For shapes that keep changing, this costs more than it gains.

    ## Example
    ```python
    transform = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.ToTensor()])
    for images, labels in loader:
        loss = criterion(model(images.cuda()), labels.cuda())
    ```

    ## Use instead
    ```python
    torch.backends.cudnn.benchmark = True
    ```
    Leave the last, smaller batch out (`drop_last=True`) where it costs a second search.

    ## Fix safety
    Unsafe: other kernels round differently, the choice may differ from run to run, and some kernels need more memory.
    The setting is put behind the imports of a file that is run as a script, and holds for a program that imports the
    script as well; in files without a main guard that only define functions and classes no fix is offered.

    ## When to ignore
    When sizes vary, when every run must give the same digits, or when the first step must be quick.

    ## References
    - [torch.backends.cudnn](https://docs.pytorch.org/docs/stable/backends.html#module-torch.backends.cudnn)
    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html#cuda-convolution-benchmarking)
    """

    code = "TL706"
    name = "untuned-convolution"
    default = Default.OPT_IN
    words = (
        "cuda",
        ("Conv2d", "ConvTranspose2d", "torchvision", "timm", "segmentation_models"),
        ("cudnn.benchmark", "cudnn.enabled", "CIFAR", "SVHN", "STL10", "PCAM", "EuroSAT", "Crop(", "Resize("),
    )
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.devices import Devices
        from torchlint.model.numerics.convolutions import Convolutions
        from torchlint.model.semantics.reasons import Reasons

        runs = module.fact(Convolutions).forwards
        if not runs or module.fact(Convolutions).varies or module.fact(Reasons).is_reproducible:
            return
        for switch, value in module.fact(Reasons).switched_off(_FLAG, "torch.backends.cudnn.enabled"):
            yield self.diagnostic(
                module,
                switch.node,
                f"`{switch.name}` is switched off",
                label="convolutions run with kernels that are not the fastest",
                fix=Fix(
                    "switch it on",
                    edits.replace(module, value, "True"),
                    Applicability.UNSAFE,
                    "runs other kernels, which round differently and may differ from run to run",
                ),
            )
        if (
            module.fact(Devices).uses_trainer
            or module.fact(Convolutions).sets_tuning
            or module.fact(Convolutions).one_size is None
        ):
            return
        for call, _ in runs[:1]:
            yield self.diagnostic(
                module,
                call,
                "cuDNN picks its kernels heuristically; `cudnn.benchmark = True` measures them",
                label="convolutions of one size",
                notes=(
                    Note.at(module, module.fact(Convolutions).one_size, "all images have one size"),
                    Note(f"nothing in this file sets `{_FLAG}`"),
                ),
                fix=_tune(module, call),
            )


def _tune(module: Module, call: cst.Call) -> Fix | None:
    """Put the setting behind the imports, if the file is a script."""
    placed = edits.insert_setting(module, f"{_FLAG} = True", call)
    if not placed:
        return None
    return Fix(
        "let cuDNN look for the fastest kernels",
        placed,
        Applicability.UNSAFE,
        "runs other kernels, which round differently and may differ from run to run",
    )
