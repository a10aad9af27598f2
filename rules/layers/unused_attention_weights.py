from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._attention_words import uses_first_result

if TYPE_CHECKING:
    from torchlint.model.module import Module


class UnusedAttentionWeights(Rule):
    """`nn.MultiheadAttention` computes and averages attention weights that are not used.

    ## What it does
    Flags calls of an `nn.MultiheadAttention` without `need_weights`, of whose two results only the first is read:
    `attn(q, k, v)[0]`, `out, _ = attn(q, k, v)`, or a second name that nothing uses before it gets another value. The
    attribute, or the container that the layer is in, may also contain other layers, if those do not take the arguments
    of the call.

    Not reported are calls that pass `need_weights`, `average_attn_weights` or `is_causal`, or options that are not
    seen, classes derived from `nn.MultiheadAttention`, other libraries' classes of this name, and files that register
    forward hooks, which may read the weights. Programs that allow TF32 and use no 16-bit format are not reported
    either: there, the separate products use TF32, and the kernel does not.

    ## Why it is slow
    `need_weights` defaults to True. The layer then multiplies queries and keys, applies the softmax, stores a matrix
    of all pairs of positions for each head and averages it over the heads. With `need_weights=False` it calls
    `scaled_dot_product_attention`, whose kernels never store the matrix. Before torch 2.0 there is no such function,
    and the layer only leaves out the average. The argument exists in all these versions.

    Where TF32 is allowed for float32, training with sequences of 2048 positions was 0.70x as fast without weights
    (NVIDIA H200, torch 2.11), and used a fifth of the memory. `manual-attention` lists how this depends on the number
    format.

    ## Example
    ```python
    out, _ = self.attention(x, x, x)
    ```

    ## Use instead
    ```python
    out, _ = self.attention(x, x, x, need_weights=False)
    ```

    ## Fix safety
    Unsafe: the kernel adds up in another order, and rounds differently. In training, dropout draws other random
    numbers. The second result is None.

    ## When to ignore
    When a subclass, a hook or a tool outside of the file reads the weights.

    ## References
    - [torch.nn.MultiheadAttention](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html)
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL701"
    name = "unused-attention-weights"
    words = (("[0]", re.compile(r",[ \t]*\*?\w+[ \t]*[)\]]?[ \t]*=")),)
    project_words = (
        "torch",
        "MultiheadAttention(",
    )
    since = (1, 11)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a call that may be of the layer is used for its first result."""
        return super().may_concern(text) and uses_first_result(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.precision_words import PrecisionWords

        from ._attention_weights import AttentionWeights

        for call, layer in module.fact(AttentionWeights).unused():
            if module.fact(PrecisionWords).allow_tf32_only:
                return
            added = edits.add_keyword(module, call, "need_weights", "False")
            caution = "rounds differently; in training, dropout draws other random numbers"
            yield self.diagnostic(
                module,
                call,
                "`nn.MultiheadAttention` computes attention weights that are not used",
                label="`need_weights` defaults to True",
                notes=() if layer is None else (Note.at(module, layer, "the layer is created"),),
                fix=None if added is None else Fix("add `need_weights=False`", added, Applicability.UNSAFE, caution),
            )
