from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

from ._kinds import TokenizedIn

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: A tokenizer that is called or created, or a method of one, and one that an annotation names.
_CALLED = re.compile(r"okeniz(?!\w*_available)\w*[ \t]*[(.\[]")
_ANNOTATED = re.compile(r":[ \t]*(?:[\w.]{1,20}\[)?[\"']?[\w.]{0,40}okeniz")
_PLACES = {
    TokenizedIn.STEP: "the training loop",
    TokenizedIn.COLLATE: "`collate_fn`",
    TokenizedIn.ITEM: "`__getitem__`",
}


class TokenizerPerEpoch(Rule):
    """The training process tokenizes the same texts again at every epoch.

    ## What it does
    Flags calls of a tokenizer in the training loop, and in a `collate_fn` or `__getitem__` of a program whose loaders
    have no worker processes, if the program trains on a GPU for several epochs.

    Not reported are texts that differ from epoch to epoch or that a network generates, prompts and separators, calls
    and loops that also process images or videos, whose captions are often chosen at random, and loaders with workers,
    which tokenize while the GPU computes.

    ## Why it is slow
    The GPU waits while the tokenizer runs, at every batch. The tokens of a text are the same at each epoch, so that all
    of this work after the first epoch is repeated.

    ## Example
    ```python
    def collate_fn(rows):
        tokens = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        return tokens, torch.tensor([row["label"] for row in rows])
    ```

    ## Use instead
    ```python
    tokenized = dataset.map(lambda row: tokenizer(row["text"], truncation=True))

    def collate_fn(rows):
        tokens = tokenizer.pad([{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt")
        return tokens, torch.tensor([row["label"] for row in rows])
    ```
    `datasets.Dataset.map` tokenizes once and keeps the result on disk. For a data set of your own, tokenize in
    `__init__`. Worker processes (`num_workers`) hide the work instead of avoiding it.

    ## Fix safety
    Advice: where the tokens can be kept depends on the data set.

    ## When to ignore
    When there is one epoch, when the texts are few, or when the tokens of all texts need too much memory.

    ## References
    - [datasets: map](https://huggingface.co/docs/datasets/process#map)
    - [torch.utils.data: working with collate_fn](https://docs.pytorch.org/docs/stable/data.html#dataloader-collate-fn)
    """

    code = "TL114"
    name = "tokenizer-per-epoch"
    default = Default.INFO
    words = ("okeniz", ("encode(", "encode_plus(", _CALLED, _ANNOTATED))
    project_words = ("DataLoader", (".backward(", "ightning", "ccelerat"))

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._repeated_tokens import repeated_tokens

        for found in repeated_tokens(module):
            yield self.diagnostic(
                module,
                found.call,
                f"{_PLACES[found.place]} tokenizes the same texts again at every epoch",
                label="the GPU waits while the training process tokenizes",
                notes=(Note("the tokens of a text are the same at each epoch"),),
            )
