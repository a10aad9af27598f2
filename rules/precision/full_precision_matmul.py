from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

from ._layer_sketch import may_have_products

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

_SETTING = 'torch.set_float32_matmul_precision("high")'


class FullPrecisionMatmul(Rule):
    """Float32 matrix products on CUDA run without TF32.

    ## What it does
    Flags the first network that a loop runs on CUDA, also by a method of the network that disables gradients
    (`model.infer_image(image)`) or in a function that the loop calls, if its layers multiply matrices (linear layers,
    attention) and nothing in the file chooses a precision: no TF32 (allowed or forbidden), no autocast, no half
    precision, no library that sets them.

    Not flagged are

    - training loops that gain more from autocast: TL301 (missing-autocast) flags them;
    - networks with convolutions, because cuDNN uses TF32 by default; a convolution that embeds patches, with a stride
      equal to its kernel size, does not count;
    - networks whose layers are all seen to have fewer than 1024 x 1024 weights.

    ## Why it is slow
    Since Ampere, tensor cores multiply float32 numbers after rounding them to TF32, which has the range of float32 and
    10 bits after the point instead of 23. By default PyTorch uses TF32 for convolutions, but not for matrix products.
    Those run on the CUDA cores, which are slower.

    ## Example
    ```python
    encoder = nn.TransformerEncoder(layer, 12).cuda().eval()
    with torch.no_grad():
        for tokens in loader:
            embeddings.append(encoder(tokens.cuda()))
    ```

    ## Use instead
    ```python
    torch.set_float32_matmul_precision("high")
    encoder = nn.TransformerEncoder(layer, 12).cuda().eval()
    ...
    ```
    The setting applies to the whole process. Do not mix `torch.backends.cuda.matmul.allow_tf32` with the newer
    `fp32_precision` attributes: if they disagree, reading the setting raises an error.
    `torch.set_float32_matmul_precision` agrees with both.

    ## Fix safety
    Unsafe: products are rounded to fewer digits in the whole process. The fix inserts the setting after the imports of
    a script, so that processes started by the script have it too. It also applies to a program that imports the script.
    No fix is offered in files without a main guard that only define functions and classes, because other files import
    them.

    ## When to ignore
    Ignore it if the task needs the precision (solvers, decompositions, comparisons with a reference), and on GPUs
    before Ampere, which have no TF32.

    ## Reported elsewhere
    - About 7x for one product of two 10240 x 10240 matrices: 0.016 s instead of 0.11 s (NVIDIA GA100, 2020):
      [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices)

    ## References
    - [TensorFloat-32](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices)
    - [torch.set_float32_matmul_precision](https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html)
    """

    code = "TL302"
    name = "full-precision-matmul"
    default = Default.INFO
    words = (
        "cuda",
        ("no_grad", "inference_mode", "BCELoss", "binary_cross_entropy", "autograd", "create_graph", ".eval()"),
    )
    project_words = (("Linear", "Attention", "Transformer", "dot_product_attention"),)
    since = (1, 12)
    demo = ("GPU",)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a network may multiply matrices."""
        return may_have_products(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.precision import Precision

        precision = module.fact(Precision)
        found = precision.float32_product
        if found is None or (precision.trains_in_float32 and not precision.loses_on_probabilities):
            return  # TL301 reports what autocast speeds up without other changes
        forward, layer = found
        yield self.diagnostic(
            module,
            forward,
            "network multiplies float32 matrices without TF32",
            label="runs without tensor cores",
            notes=(
                Note.at(module, layer.node, f"`{layer.name}` multiplies float32 matrices"),
                Note("nothing in this file sets autocast, TF32 or a 16-bit dtype"),
            ),
            fix=_allow(module, forward),
        )


def _allow(module: Module, at: cst.CSTNode) -> Fix | None:
    """Insert the setting after the imports, if the file is a script."""
    placed = edits.insert_setting(module, _SETTING, at)
    if not placed:
        return None
    return Fix(
        f"add `{_SETTING}`",
        placed,
        Applicability.UNSAFE,
        "rounds the inputs of float32 matrix products to TF32 in the whole process",
    )
