from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: A file without these shows no convolutional network.
_NETWORKS = ("Conv2d", "ConvTranspose2d", "torchvision", "timm", "segmentation_models")
_FORMAT = "memory_format={torch}.channels_last"


class ChannelsFirstConvolution(Rule):
    """A convolutional network runs in 16 bits with the channels first, so that each convolution turns its data around.

    ## What it does
    Flags the first forward of a loop on CUDA that runs a network of two-dimensional convolutions under autocast or in
    half precision, in a file that never speaks of a memory format. Networks of grouped or three-dimensional
    convolutions and of instance norms are left alone: some of them get slower.

    ## Why it is slow
    Tensor cores take images pixel by pixel, with all channels of a pixel side by side. PyTorch keeps one channel after
    the other unless told otherwise, and cuDNN then turns the data around before and after its kernels.

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
    The shapes stay what they are; only the strides change. A convolution whose weights are in this format gives its
    output in it too, so that turning the network alone leaves only the images to be turned around, once a batch.

    ## Fix safety
    Unsafe: other kernels round differently, and code that asks for strides notices: `view` raises on what `reshape`
    and `flatten` can do. The fix turns the network, before the loop. It is not offered in a file that calls `view`.

    ## When to ignore
    When the network is made of few convolutions among other layers, or a measurement says otherwise: the gain depends
    on the GPU and on the layers.

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
                label="16-bit images with the channels first (NCHW)",
                notes=(Note("nothing in this file chooses a memory format"),),
                fix=_fix(module, call, network),
            )


def _fix(module: Module, call: cst.Call, network: cst.BaseExpression) -> Fix | None:
    """Turn the network before the loop."""
    from torchlint.model.training.inference import InferenceSite
    from torchlint.model.training.inference_places import first_statement

    if any(module.methods("view")) or any(module.calls("torch.nn.parallel.DistributedDataParallel")):
        return None
    site = InferenceSite(call, network, module.function_of(call) or module.root, ("", None))
    place = first_statement(module, site)
    named = edits.name_module(module, "torch", call)
    if place is None or named is None or named[1]:
        return None
    changed = edits.insert_before(module, place, f"{module.code(network)}.to({_FORMAT.format(torch=named[0])})")
    if not changed:
        return None
    return Fix(
        "put the channels last in the network",
        changed,
        Applicability.UNSAFE,
        "runs other kernels, which round differently; strides change",
    )
