from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

from ._mask_sketch import ATTENTION, POSITION, may_be_causal

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call
    from torchlint.rule.sketch import Sketch

_ATTENTION = f"torch.nn.functional.{ATTENTION}"
_LAYER = "torch.nn.MultiheadAttention"
#: Words of attention with more keys than queries: one query with all earlier keys needs no mask.
_CACHES = re.compile(r"cache|past_|_past|(?<![a-z])past\b|prev_k|prev_v|kv_(?:len|pos)|start_pos|offset|cross|memory")


class ExplicitCausalMask(Rule):
    """Attention gets a causal mask as a tensor, which excludes the flash kernel.

    ## What it does
    Flags `attn_mask` of `scaled_dot_product_attention` if the mask is certainly causal and square: `torch.tril` of ones
    as booleans, `torch.triu` of minus infinity, `generate_square_subsequent_mask`, also in place (`mask.fill_(-inf)`,
    `mask.triu_(1)`) and by a method without parameters. The mask may be a buffer of which the first rows and columns
    are taken (`self.mask[:n, :n]`). Also flags such a mask of `nn.MultiheadAttention` with
    `need_weights=False` and without `is_causal=True` and a mask for padding.

    Not reported: masks that are combined with another mask, such as one for padding; masks with different numbers of
    rows and columns; masks that are `None` in some calls; masks of unknown origin; and attention with a key-value cache
    or with keys of another sequence.

    ## Why it is slow
    The flash attention kernel takes no mask. With `is_causal=True` it skips the blocks above the diagonal, which are
    half of the products. With a mask tensor, PyTorch calls another kernel, which computes all blocks and reads the
    mask. The mask takes memory that grows with the square of the length.

    ## Example
    ```python
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=q.device))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ```

    ## Use instead
    ```python
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ```
    `nn.MultiheadAttention` needs both: `attn_mask=mask, is_causal=True`. With `need_weights=False`, it then passes only
    `is_causal=True` on. With a key-value cache, queries and keys differ in number, and `is_causal=True` aligns the mask
    with the first key. Use `torch.nn.attention.bias.causal_lower_right` there.

    ## Fix safety
    Unsafe: the kernels round differently. The mask is no longer used there, but is still created. No fix is offered if
    other arguments follow by position.

    ## When to ignore
    When the program selects a kernel that needs a mask.

    ## References
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    - [torch.nn.attention.bias.CausalBias](https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalBias.html)
    """

    code = "TL703"
    name = "explicit-causal-mask"
    words = (("scaled_dot_product_attention(", "attn_mask="),)
    project_words = (("tril", "triu", "generate_square_subsequent_mask"),)
    since = (2, 0)
    demo = ("GPU",)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a call is given a mask that may be causal."""
        return may_be_causal(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._causal_masks import CausalMasks, Part

        is_causal = module.fact(CausalMasks).is_causal
        for call in module.own_calls(_ATTENTION):
            mask = _mask(call)
            if mask is None or call.argument("is_causal").literal() == "True":
                continue
            if _may_have_cache(module, call) or not is_causal(mask.value, Part.LOWER):
                continue
            yield self.diagnostic(
                module,
                mask,
                "`attn_mask` is a causal mask, which `is_causal=True` applies without a tensor",
                label="the flash kernel takes no mask",
                fix=_fix(module, call, mask),
            )
        for call in _layers(module):
            mask = call.argument("attn_mask").node
            if mask is None or not is_causal(mask.value, Part.UPPER):
                continue
            added = edits.add_keyword(module, call.node, "is_causal", "True")
            yield self.diagnostic(
                module,
                mask,
                "`attn_mask` is a causal mask, but `is_causal=True` is missing",
                label="the flash kernel takes no mask",
                fix=None
                if added is None
                else Fix("add `is_causal=True`", added, Applicability.UNSAFE, "rounds differently"),
            )


def _layers(module: Module) -> Iterator[Call]:
    """The calls of `nn.MultiheadAttention` that may use the flash kernel."""
    from torchlint.model.syntax.calls import keyword

    for node in module.tree.calls_in(module.root):
        if keyword(node, "attn_mask") is None:
            continue
        if module.value(node.func).name != _LAYER or any(item.star for item in node.args):
            continue
        call = module.call(node, _LAYER)
        padding = call.argument("key_padding_mask")
        if call.argument("need_weights").literal() == "False" and call.argument("is_causal").absent:
            if (padding.absent or padding.literal() == "None") and len(_positional(call)) == POSITION:
                yield call


def _positional(call: Call) -> list[cst.Arg]:
    return [item for item in call.node.args if item.keyword is None and not item.star]


def _mask(call: Call) -> cst.Arg | None:
    """The argument `attn_mask`."""
    given = call.argument("attn_mask").node
    positional = _positional(call)
    if given is None and len(positional) > POSITION and not any(item.star == "*" for item in call.node.args):
        given = positional[POSITION]
    return given


def _may_have_cache(module: Module, call: Call) -> bool:
    """Whether the words of the class or function around may speak of more keys than queries."""
    import libcst as cst

    around = [item for item in module.tree.ancestors(call.node) if isinstance(item, (cst.FunctionDef, cst.ClassDef))]
    return bool(around) and _CACHES.search(module.code(around[-1])) is not None


def _fix(module: Module, call: Call, mask: cst.Arg) -> Fix | None:
    behind = call.node.args[list(call.node.args).index(mask) + 1 :]
    if mask.keyword is None and any(item.keyword is None for item in behind):
        return None
    if not call.argument("is_causal").absent or module.comment_on(mask):
        return None
    edited = edits.replace(module, mask, "is_causal=True")
    return Fix("pass `is_causal=True`", edited, Applicability.UNSAFE, "rounds differently")
