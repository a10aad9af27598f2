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
    """Convolutions on images of one size run without `cudnn.benchmark`, with kernels that cuDNN picks heuristically.

    ## What it does
    Flags the first forward pass of a loop on CUDA that runs a convolutional network. Transforms or the dataset must
    show that all images have one size, and nothing in the file may set `torch.backends.cudnn.benchmark`. In a file with
    such a loop, it also flags `torch.backends.cudnn.benchmark = False` and `torch.backends.cudnn.enabled = False`.
    These are not flagged if a comment, a condition, a seed or a setting for determinism gives a reason.

    ## Why it is slow
    cuDNN has many kernels for the same convolution and picks one by heuristics. With `benchmark` enabled, it runs all
    of them for each new shape and keeps the fastest. If shapes change often, this costs more than it gains.

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
    Skip the smaller last batch (`drop_last=True`) if it costs a second search.

    ## Fix safety
    Unsafe: other kernels round differently, the choice may differ between runs, and some kernels need more memory. The
    fix inserts the setting after the imports of a script. It also applies to a program that imports the script. No fix
    is offered in files without a main guard that only define functions and classes.

    ## When to ignore
    Ignore it if sizes vary, if every run must give identical results, or if the first step must be fast.

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
        from torchlint.model.numerics.convolutions import Convolutions
        from torchlint.model.tensors.devices import Devices

        from ._reasons import Reasons

        runs = module.fact(Convolutions).forwards
        if not runs or module.fact(Convolutions).varies or module.fact(Reasons).is_reproducible:
            return
        for switch, value in module.fact(Reasons).switched_off(_FLAG, "torch.backends.cudnn.enabled"):
            yield self.diagnostic(
                module,
                switch.node,
                f"`{switch.name} = False` keeps convolutions from using the fastest kernels",
                label="disabled without a stated reason",
                fix=Fix(
                    "set it to True",
                    edits.replace(module, value, "True"),
                    Applicability.UNSAFE,
                    "uses other kernels, which round differently and may differ between runs",
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
                label="convolutions on images of one size",
                notes=(
                    Note.at(module, module.fact(Convolutions).one_size, "all images have one size"),
                    Note(f"nothing in this file sets `{_FLAG}`"),
                ),
                fix=_tune(module, call),
            )


def _tune(module: Module, call: cst.Call) -> Fix | None:
    """Insert the setting after the imports, if the file is a script."""
    placed = edits.insert_setting(module, f"{_FLAG} = True", call)
    if not placed:
        return None
    return Fix(
        f"add `{_FLAG} = True`",
        placed,
        Applicability.UNSAFE,
        "uses other kernels, which round differently and may differ between runs",
    )
