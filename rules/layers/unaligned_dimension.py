from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule
from torchlint.source.lexemes import names

from ._alignment_words import FIXED, HALF, TRAINS

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: It begins with a digit, which is quick to find; nothing of a name or a number may be before that.
_NUMBER = re.compile(r"[1-9](?<![\w.].)(?:_?[0-9]){3,8}(?![\w.])")


class UnalignedDimension(Rule):
    """A large linear layer has a dimension that is not a multiple of 8.

    ## What it does
    Flags a literal size of an `nn.Linear`, such as a vocabulary of 50257 tokens, that is at least 1000 and not a
    multiple of 8. The literal may be an argument, a constant, a default, or an attribute of a configuration, in any
    file. The program must train on a GPU in 16 bits: under autocast, with `half()`, or with a trainer in mixed
    precision. The option `smallest` sets the limit of 1000.

    Not reported: programs that load a pretrained model, whose checkpoint sets the size; and programs that call
    `torch.compile`, which pads matrix products itself.

    ## Why it is slow
    Tensor cores multiply blocks of matrices, and kernels read and write 16 bytes at a time: 8 numbers of 16 bits. If
    the rows of a matrix do not begin at multiples of 16 bytes, cuBLAS selects kernels that read and write fewer bytes
    at a time. The output of a language model, its gradient and the gradient of the weights are all affected, and they
    are the largest products of a small model.

    ## Example
    ```python
    head = nn.Linear(768, 50257, bias=False)
    ```

    ## Use instead
    ```python
    head = nn.Linear(768, 50304, bias=False)
    ```
    50304 is the next multiple of 64. The additional tokens never occur as labels, and the network learns not to predict
    them. When sampling, ignore them: `logits[..., :50257]`.

    ## Fix safety
    Advice only: the size is part of the checkpoint, and other code may use it as the number of tokens or classes.

    ## When to ignore
    When a checkpoint or a tokenizer requires this size.

    ## References
    - [Matrix multiplication background](https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html#requirements-tc)
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL707"
    name = "unaligned-dimension"
    default = Default.INFO
    words = (("Linear(", "vocab", "class", "token", "size", "dim", "num", "out_features"),)
    project_words = ("Linear(", HALF, TRAINS)
    demo = ("GPU",)
    options = {"smallest": 1000}

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether there is such a number in the text, and nothing fixes the sizes."""
        if not _has_size(" ".join(names(code))):
            return False
        return super().may_concern(code) and _has_size(code) and not FIXED.search(code)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._alignment import Alignment

        option = module.option(self.name, "smallest")
        smallest = option if isinstance(option, int) else 1000
        for found in module.fact(Alignment).unaligned(smallest):
            padded = -(-found.size // 64) * 64
            yield self.diagnostic(
                module,
                found.literal,
                f"a linear layer has a dimension of {found.size}, which is not a multiple of 8",
                label=f"{padded} is the next multiple of 64",
                notes=(
                    Note.at(module, found.layer, "the layer"),
                    Note("the program trains in 16 bits, where rows are aligned if their length is a multiple of 8"),
                ),
            )


def _has_size(text: str) -> bool:
    return any(int(found.group()) % 8 for found in _NUMBER.finditer(text))
