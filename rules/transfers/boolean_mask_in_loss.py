from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Cause, Default, Diagnostic, Edit, Fix, Note, Rule

from ._mask_sketch import may_select_for_loss
from ._mask_words import selects_for_loss

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._masked_losses import MaskedLoss


class BooleanMaskInLoss(Rule):
    """Boolean-mask indexing in the loss waits for the GPU at every training step.

    ## What it does
    Flags a loss of `output[mask]` and `target[mask]` in training on a GPU, where `mask` is the result of a comparison,
    also if it is a parameter for which all callers pass one, or an inverted mask (`output[~invalid]`). The selections
    may be in the call, be copied there (`target[mask].detach()`), or be assigned to names before it. The mask of the
    output may be that of the target, repeated for all classes (`mask.view(n, h, w, 1).repeat(1, 1, 1, c)`).

    Not reported are other indices, which have a known length, evaluation, and losses that are not of `torch.nn`.

    ## Why it is slow
    The number of selected items is known only on the GPU. Each index with a mask therefore waits until the GPU has
    finished all earlier work, and during that time the CPU launches nothing. The shape of the result differs from step
    to step, which prevents CUDA graphs and makes `torch.compile` break the graph.

    ## Example
    ```python
    active = attention_mask.view(-1) == 1
    loss = F.cross_entropy(logits.view(-1, classes)[active], labels.view(-1)[active])
    ```

    ## Use instead
    ```python
    active = attention_mask.view(-1) == 1
    loss = F.cross_entropy(logits.view(-1, classes), labels.view(-1).masked_fill(~active, -100))
    ```
    `cross_entropy` ignores items with the label -100. For a loss of one number per item, use `reduction="none"`,
    `torch.where(mask, loss, 0.0).sum()` and `mask.sum()`.

    ## Fix safety
    Unsafe: the loss is the same except for rounding, but the GPU computes the logarithms of all items. The fix is
    offered for cross entropies without other arguments, of logits in rows. Otherwise the change is advice: outputs of
    items that the mask drops must be finite, because their gradients become NaN otherwise.

    ## When to ignore
    When the mask keeps few of very many items, as for the positive anchors of a detector: a loss of all items may take
    longer than the wait.

    ## References
    - [torch.nn.functional.cross_entropy](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html)
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL216"
    name = "boolean-mask-in-loss"
    default = Default.INFO
    words = ("[", ("loss", "Loss", "entropy", "criteri"))
    project_words = ("torch",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether two tensors may be indexed with the same mask."""
        return super().may_concern(text) and selects_for_loss(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether two arguments of a call may be indexed with a mask."""
        return may_select_for_loss(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._masked_losses import MaskedLosses

        for found in module.fact(MaskedLosses).all():
            mask = module.code(found.mask)
            function = module.function_of(found.call)
            yield self.diagnostic(
                module,
                found.call,
                f"indexing with the mask `{mask}` waits for the GPU at every training step",
                label="only the GPU knows how many items are selected",
                notes=(
                    Note.at(
                        module,
                        found.repeated.calls[0] if found.repeated.calls else found.repeated.step,
                        "runs at every step",
                    ),
                ),
                fix=_fix(module, found),
                cause=Cause((module.tree.index(function or found.call), mask), "also indexed"),
            )


def _fix(module: Module, found: MaskedLoss) -> Fix | None:
    from ._masked_losses import as_ignored

    text = as_ignored(module, found)
    if text is None:
        return None
    start, end = module.span(found.call.args[0].value)[0], module.span(found.call.args[1].value)[1]
    return Fix(
        "ignore the other labels",
        (Edit(start, end, text),),
        Applicability.UNSAFE,
        "the loss differs by rounding, and is computed for all items",
    )
