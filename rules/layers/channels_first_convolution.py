from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: A file without these contains no convolutional network.
_NETWORKS = ("Conv2d", "ConvTranspose2d", "torchvision", "timm", "segmentation_models")
_FORMAT = "memory_format={torch}.channels_last"


class ChannelsFirstConvolution(Rule):
    """Convolutions transpose their 16-bit inputs, because the network is in channels-first format.

    ## What it does
    Flags a network of two-dimensional convolutions that a loop on CUDA runs under autocast or in half precision, in a
    file that does not set a memory format. The finding is at the first forward pass of the loop. Networks with grouped
    or three-dimensional convolutions or with instance norms are not flagged: some of them get slower.

    ## Why it is slow
    Tensor cores read images in NHWC order, with all channels of a pixel next to each other. By default PyTorch stores
    NCHW, one channel after the other. cuDNN then transposes the data before and after its kernels.

    ## Example
    ```python
    model = resnet50().cuda()
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images.cuda()), labels.cuda())
    ```

    ## Use instead
    ```python
    model = resnet50().cuda().to(memory_format=torch.channels_last)
    for images, labels in loader:
        images = images.cuda().to(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), labels.cuda())
    ```
    The shapes do not change, only the strides. A convolution whose weights are in this format also returns its output
    in it. If only the network is converted, only the images must be transposed, once per batch.

    ## Fix safety
    Unsafe: other kernels round differently, and code that depends on strides may fail: `view` raises an error where
    `reshape` and `flatten` work. The fix converts the network before the loop. It is not offered in a file that calls
    `view`.

    ## When to ignore
    Ignore it if the network consists of few convolutions among other layers, or if a measurement shows no gain. The
    gain depends on the GPU and on the layers.

    ## Reported elsewhere
    - 8 % to 35 % faster training of image networks with mixed precision (NVIDIA Volta, 2020):
      [Channels last memory format](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)

    ## References
    - [Channels last memory format](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)
    """

    code = "TL705"
    name = "channels-first-convolution"
    default = Default.OPT_IN
    words = ("torch", "cuda", ("autocast", "half(", "bfloat16", "float16"), _NETWORKS)
    since = (1, 10)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.autocasts import Autocasts
        from torchlint.model.numerics.convolutions import Convolutions
        from torchlint.model.numerics.precision import Precision
        from torchlint.model.training.networks import Networks

        if module.fact(Convolutions).chooses_format:
            return
        for call, layers in module.fact(Convolutions).forwards:
            if layers.is_depthwise or layers.any("Conv3d", "ConvTranspose3d", "InstanceNorm2d", "InstanceNorm3d"):
                continue
            network = module.fact(Networks).network_of(call)
            if not module.fact(Autocasts).is_low(call) and not module.fact(Precision).is_halved(network):
                continue
            yield self.diagnostic(
                module,
                call,
                "convolution transposes its input to NHWC at every call",
                label="16-bit images in channels-first format (NCHW)",
                notes=(Note("nothing in this file sets a memory format"),),
                fix=_fix(module, call, network),
            )


def _fix(module: Module, call: cst.Call, network: cst.BaseExpression) -> Fix | None:
    """Convert the network before the loop."""
    from torchlint.model.training.inference_places import first_statement
    from torchlint.model.training.inference_site import InferenceSite

    if any(module.methods("view")) or any(module.calls("torch.nn.parallel.DistributedDataParallel")):
        return None
    site = InferenceSite(call, network, module.function_of(call) or module.root, ("", None))
    place = first_statement(module, site)
    named = edits.name_module(module, "torch", call)
    if place is None or named is None or named[1]:
        return None
    line = f"{module.code(network)}.to({_FORMAT.format(torch=named[0])})"
    changed = edits.insert_before(module, place, line)
    if not changed:
        return None
    return Fix(
        f"add `{line}`",
        changed,
        Applicability.UNSAFE,
        "uses other kernels, which round differently, and changes strides",
    )
