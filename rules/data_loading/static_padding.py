from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

from ._kinds import TokenizedIn

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._tokenizing import Padding

_PLACES = {
    TokenizedIn.STEP: "each batch can be padded to its longest text instead",
    TokenizedIn.COLLATE: "the collate function can pad each batch to its longest text instead",
    TokenizedIn.ITEM: "the dataset pads each text separately; a collate function can pad each batch instead",
    TokenizedIn.MAP: "all texts are padded in advance; a data collator can pad each batch instead",
    TokenizedIn.DATASET: "all texts are padded in advance; a collate function can pad each batch instead",
}


class StaticPadding(Rule):
    """A tokenizer pads every text to the maximum length.

    ## What it does
    Flags `padding="max_length"` (or `pad_to_max_length=True`) in a tokenizer call that produces training data: in a
    collate function, a training loop, a dataset, or a function passed to `dataset.map`. A maximum length of at most 64
    is not flagged. The option `short` sets this limit.

    ## Why it is slow
    The network computes every position, including the padding, and the cost of attention grows with the square of the
    length. If most texts are much shorter than the maximum, most of the computation is spent on padding.

    ## Example
    ```python
    def collate(texts):
        return tokenizer(texts, padding="max_length", truncation=True, max_length=512, return_tensors="pt")
    ```

    ## Use instead
    ```python
    def collate(texts):
        return tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    ```
    `pad_to_multiple_of=8` keeps shapes that tensor cores prefer. In a dataset or in `map`, return texts without padding
    and let `transformers.DataCollatorWithPadding` pad each batch. Batches of texts of similar length save more.

    ## Fix safety
    Unsafe: batches then differ in length. Code that expects `max_length` columns may fail, and a network without an
    attention mask returns different outputs. No fix is offered if texts are tokenized one at a time, because texts of
    different lengths cannot be stacked into one batch.

    ## When to ignore
    - Shapes must be static: with `torch.compile`, CUDA graphs, exported models or TPUs. A file that mentions one of
      these is not flagged.
    - A text encoder was trained on one fixed length.
    - Nearly all texts are as long as the maximum.

    ## References
    - [Padding and truncation](https://huggingface.co/docs/transformers/pad_truncation)
    - [Data collators](https://huggingface.co/docs/transformers/main_classes/data_collator)
    """

    code = "TL110"
    name = "static-padding"
    default = Default.OPT_IN
    words = (('"max_length"', "'max_length'", "pad_to_max_length"),)
    project_words = (("Dataset", "DataLoader", ".map(", "collate"),)
    demo = ("GPU",)
    options = {"short": 64}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._tokenizing import Tokenizing

        short = module.option(self.name, "short")
        limit = short if isinstance(short, int) else 64
        for padding in module.fact(Tokenizing).padded:
            if padding.length is not None and padding.length <= limit:
                continue
            yield self.diagnostic(
                module,
                padding.call,
                "tokenizer pads every text to the maximum length",
                label=f"`{module.code(padding.argument)}`",
                notes=(Note(_PLACES[padding.place]),),
                fix=self._fix(module, padding) if padding.batch else None,
            )

    def _fix(self, module: Module, padding: Padding) -> Fix | None:
        keyword = padding.argument.keyword
        if keyword is None:
            return None
        if keyword.value == "padding":
            edited = edits.replace(module, padding.argument.value, "True")
        else:
            edited = edits.replace(module, keyword, "padding")
        caution = "changes the batch shapes, and the outputs of a network without an attention mask"
        return Fix("set `padding=True` to pad to the longest text of the batch", edited, Applicability.UNSAFE, caution)
