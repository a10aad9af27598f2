from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_SETTING = 'torch.set_float32_matmul_precision("high")'


class FullPrecisionMatmul(Rule):
    """Matrix products of float32 numbers on CUDA leave the tensor cores idle: TF32 is never allowed.

    ## What it does
    Flags the first network that a loop runs on CUDA, where its layers multiply matrices (linear layers, attention)
    and nothing in the file chooses a number format: no TF32 (allowed or forbidden), no autocast, no half precision, no
    library that sets them. Training loops that autocast would serve are left to TL301 (missing-autocast), which gains
    more; networks of convolutions are left alone, because cuDNN uses TF32 without being asked, and so are networks
    whose layers are all seen to have less than 1024 x 1024 weights.

    ## Why it is slow
    Since Ampere, tensor cores multiply float32 numbers after rounding them to TF32: the range of float32, with 10 bits
    after the point instead of 23. PyTorch allows this for convolutions, and forbids it for matrix products unless
    asked: they then run on the ordinary cores, which are slower.

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
    One setting holds for the whole process. Do not mix `torch.backends.cuda.matmul.allow_tf32` with the newer
    `fp32_precision` attributes: where the two disagree, reading the setting raises an error. The function above agrees
    with both.

    ## Fix safety
    Unsafe: products are rounded to fewer digits, in the whole process. The setting is put behind the imports of a
    file that is run as a script, so that processes which the script starts have it too; a program that imports the
    script has it as well. In files without a main guard that only define functions and classes no fix is offered,
    because they are there to be imported.

    ## When to ignore
    When the task needs the digits (solvers, decompositions, comparisons with a reference), and on GPUs before Ampere,
    which have no TF32.

    ## References
    - [TensorFloat-32](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices)
    - [torch.set_float32_matmul_precision](https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html)
    """

    code = "TL302"
    name = "full-precision-matmul"
    default = Default.INFO
    words = (
        "cuda",
        ("Linear", "Attention", "Transformer", "dot_product_attention"),
        ("no_grad", "inference_mode", "BCELoss", "binary_cross_entropy", "autograd", "create_graph", ".eval()"),
    )
    since = (1, 12)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.precision import Precision

        precision = module.fact(Precision)
        if precision.float32_training and not precision.loses_on_probabilities:
            return  # TL301 reports what autocast speeds up without other changes
        found = module.fact(Precision).float32_product
        if found is None:
            return
        forward, layer = found
        yield self.diagnostic(
            module,
            forward,
            "the network multiplies float32 matrices without TF32",
            label="does not use the tensor cores",
            notes=(
                Note.at(module, layer.node, f"matrices are multiplied by `{layer.name}`"),
                Note("nothing in this file chooses a precision"),
            ),
            fix=_allow(module, forward),
        )


def _allow(module: Module, at: cst.CSTNode) -> Fix | None:
    """Put the setting behind the imports, if the file is a script."""
    placed = edits.insert_setting(module, _SETTING, at)
    if not placed:
        return None
    return Fix(
        "allow TF32 for matrix products",
        placed,
        Applicability.UNSAFE,
        "rounds float32 matrix products to TF32, in the whole process",
    )
