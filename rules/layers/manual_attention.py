from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

from ._product_sketch import may_attend
from ._product_words import multiplies_weights

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

#: Libraries and functions next to which a handwritten attention is the fallback.
_KERNELS = re.compile(r"scaled_dot_product_attention|flash_attn|memory_efficient_attention|flex_attention|xformers")


class ManualAttention(Rule):
    """Attention written as product, softmax and product stores a matrix of all queries and keys.

    ## What it does
    Flags a softmax over the last dimension of `q @ k.transpose(-2, -1)` (also `torch.matmul`, `torch.bmm` and
    `torch.einsum`), scaled or masked in between, maybe less the largest score of each row, where the result is only
    multiplied with values, after dropout at most.

    Not reported are weights and scores that are returned, stored or used otherwise, learned vectors in place of queries
    or keys (pooling), other changes of the scores (caps, biases by relative position, learned temperatures), and files
    that use `scaled_dot_product_attention`, `flash_attn` or the like: there, the handwritten attention is the fallback.
    Programs that allow TF32 and use no 16-bit format are not reported either: there, the kernel is seldom faster.

    ## Why it is slow
    The matrix of scores has a number for each pair of positions and each head. It is written and read at every step:
    product, scaling, mask, softmax, dropout, product; and autograd stores it for the backward pass.
    `scaled_dot_product_attention` computes the same in one kernel block by block, and never stores the matrix.

    How much faster it is depends on the number format. For sequences of 64 to 4096 positions on an NVIDIA H200 (torch
    2.11; `validation/attention.py`), training was 1.6x to 9.8x as fast under autocast, 1.7x to 5.3x in 16-bit formats,
    and 0.9x to 1.2x in float32; inference 1.9x to 14x, 1.5x to 9.2x, and 1.2x to 1.5x. Where TF32 is allowed for
    float32, the separate kernels use it and the one kernel does not: training was 0.6x to 0.8x as fast, inference 0.8x
    to 1.0x. In all formats, the one kernel stores less.

    ## Example
    ```python
    scores = (q @ k.transpose(-2, -1)) * self.scale
    weights = self.drop(scores.softmax(dim=-1))
    x = weights @ v
    ```

    ## Use instead
    ```python
    dropout = self.drop.p if self.training else 0.0
    x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=self.scale)
    ```
    A mask is passed as `attn_mask`: a boolean one is True where attention is allowed, one of floats is added. A causal
    mask is `is_causal=True`. Queries, keys and values have the shape `(batch, heads, length, width)`.

    ## Fix safety
    Unsafe: rounds differently, and dropout draws other random numbers. No fix is offered with a mask, with `einsum`,
    where the statements do not follow each other, where the rate of dropout is not seen, and below torch 2.1, which
    has no `scale`.

    ## When to ignore
    When something needs the weights, as a hook that draws them does. When the sequences are short and everything is
    compiled, `torch.compile` may already replace the pattern.

    ## References
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    - [Tutorial](https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html)
    """

    code = "TL702"
    name = "manual-attention"
    words = ("oftmax", ("matmul", "bmm", "einsum", " @ "))
    project_words = ("torch",)
    since = (2, 0)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a file computes attention, and uses none of the kernels for it."""
        return super().may_concern(text) and _KERNELS.search(text) is None and multiplies_weights(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a softmax of a product is only multiplied."""
        return may_attend(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.precision_words import PrecisionWords

        from ._attention_fix import fix_of
        from ._manual_attention import AttentionFinder

        for found in module.fact(AttentionFinder).all():
            if module.fact(PrecisionWords).allow_tf32_only:
                return
            yield self.diagnostic(
                module,
                found.softmax,
                "attention is computed in separate kernels and stores the scores of all pairs of positions",
                label="`scaled_dot_product_attention` does not store them",
                notes=(
                    Note.at(module, found.scores, "the scores are computed"),
                    Note.at(module, found.outputs[0], "the only use of the weights"),
                ),
                fix=fix_of(module, found),
            )
