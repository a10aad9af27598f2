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
    TokenizedIn.STEP: "here each batch could be as long as its longest text",
    TokenizedIn.COLLATE: "a collate function sees the batch: it could pad to the longest text of it",
    TokenizedIn.ITEM: "the dataset pads every text by itself; a collate function could pad the batch instead",
    TokenizedIn.MAP: "the texts are padded once for all; a data collator could pad each batch instead",
    TokenizedIn.DATASET: "all texts are padded in advance; a collate function could pad each batch instead",
}


class StaticPadding(Rule):
    """A tokenizer pads every batch to the maximum length.

    ## What it does
    Flags `padding="max_length"` (or `pad_to_max_length=True`) of a tokenizer call that makes training data: in a
    collate function, a training loop, a dataset, or a function given to `dataset.map`. A maximum length that is known
    to be small (at most 64, the setting `short` of `[tool.torchlint.rules.static-padding]`) is not flagged.

    ## Why it is slow
    The network computes every position, the padded ones too, and the cost of attention grows with the square of the
    length. Where most texts are much shorter than the maximum, most of the work is done for padding.

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
    `pad_to_multiple_of=8` keeps the shapes that tensor cores like. A dataset or a `map` returns texts without padding,
    and `transformers.DataCollatorWithPadding` pads each batch. Batches of texts of similar length save more.

    ## Fix safety
    Unsafe: batches then differ in length, which code that counts on `max_length` columns does not expect, and a network
    that is not given the attention mask computes something else. No fix is offered where texts are tokenized one by
    one: they would no longer fit into one batch.

    ## When to ignore
    When shapes must not change: with `torch.compile`, CUDA graphs, exported models or TPUs (a file that speaks of one
    of these is not flagged), with a text encoder that was trained on one fixed length, or when nearly all texts are as
    long as the maximum.

    ## References
    - [Padding and truncation](https://huggingface.co/docs/transformers/pad_truncation)
    - [Data collators](https://huggingface.co/docs/transformers/main_classes/data_collator)
    """

    code = "TL110"
    name = "static-padding"
    default = Default.OPT_IN
    words = (('"max_length"', "'max_length'", "pad_to_max_length"), ("Dataset", "DataLoader", ".map(", "collate"))
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
                "every text is padded to the maximum length",
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
        caution = "batches differ in length, and a network without an attention mask computes something else"
        return Fix("pad to the longest text of the batch", edited, Applicability.UNSAFE, caution)
