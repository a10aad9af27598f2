from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class RepeatedKvHeads(Rule):
    """Keys and values are repeated for each query head before `scaled_dot_product_attention`.

    ## What it does
    Flags `F.scaled_dot_product_attention(q, k, v)` without a mask where `k` and `v` are the results of
    `k.repeat_interleave(n, dim=1)` or of a function `repeat_kv(k, n)`, also if they are transposed afterwards.

    Not reported are other ways to repeat, such as `repeat`, whose heads are in another order, attention with
    `attn_mask`, and copies used elsewhere, except by attention in another branch.

    ## Why it is slow
    The repetition writes `n` copies of all keys and values, which the attention then reads. With `enable_gqa=True`,
    FlashAttention reads each key head for all its query heads. It needs an Ampere GPU or newer, 16 bits and no mask.
    On a GPU, with a mask or in float32, `enable_gqa=True` selects the slow math backend (torch 2.13).

    ## Example
    ```python
    k = k.repeat_interleave(self.groups, dim=1)
    v = v.repeat_interleave(self.groups, dim=1)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ```

    ## Use instead
    ```python
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    ```

    ## Fix safety
    Unsafe: rounds differently, and is slower where FlashAttention does not apply: in float32, or for large heads. The
    fix is offered for `repeat_interleave` directly before the attention, if nothing else reads its result.

    ## When to ignore
    When the model runs in float32.

    ## References
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL713"
    name = "repeated-kv-heads"
    default = Default.OPT_IN
    words = ("scaled_dot_product_attention", ("repeat_interleave(", "repeat_kv("))
    since = (2, 5)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._repeated_heads import RepeatedHeadsOf

        attentions = module.fact(RepeatedHeadsOf)
        for found in attentions.all():
            added = edits.add_keyword(module, found.call, "enable_gqa", "True")
            deleted = attentions.deleted(found)
            caution = "rounds differently; slower in float32"
            fix = None
            if added is not None and deleted is not None:
                fix = Fix("add `enable_gqa=True`", (*deleted, *added), Applicability.UNSAFE, caution)
            yield self.diagnostic(
                module,
                found.call,
                "the heads of keys and values are repeated in memory for `scaled_dot_product_attention`",
                label="`enable_gqa` defaults to False",
                notes=tuple(
                    Note.at(module, repeat, f"the {what} are repeated")
                    for repeat, what in zip(found.repeats, ("keys", "values"), strict=True)
                ),
                fix=fix,
            )
