from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule
from torchlint.rule.growth_words import grows_by_cat

from ._growth_sketch import may_grow

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class CatInLoop(Rule):
    """`torch.cat` in a loop copies everything collected so far at every iteration.

    ## What it does
    Flags `x = torch.cat([x, y])` in a loop that only collects: nothing in the loop reads `x`, and something behind it
    does. Also `torch.vstack` and `torch.hstack`, a first value under `if x is None:` or `if start:` with
    `start = False`, and attributes of `self`.

    Not reported are sequences that the next iteration reads, such as the tokens of a generation, also if it reads their
    embeddings instead, tensors that are created in the same iteration, and loops with few iterations: over layers,
    scales or devices, or at every hundredth step.

    ## Why it is slow
    A tensor cannot grow: each call allocates a new one and copies all of the old one into it. After `n` iterations
    about `n * n / 2` items were copied instead of `n`, and both tensors are in memory at once. A list contains
    references, and one `torch.cat` copies every item once.

    ## Example
    ```python
    outputs = torch.tensor([])
    for images in loader:
        outputs = torch.cat([outputs, model(images)], dim=0)
    ```

    ## Use instead
    ```python
    outputs = []
    for images in loader:
        outputs.append(model(images))
    outputs = torch.cat(outputs, dim=0)
    ```
    If the number of items is known, allocate the tensor once and write into its rows.

    ## Fix safety
    Unsafe: `torch.cat` of an empty list raises, where an empty tensor or `None` was left; the list contains the
    tensors themselves, which must not be changed in place; and an empty start no longer takes part in choosing the
    number format. No fix is offered for attributes, where the start is not an empty tensor, `None` or `[]` right
    before the loop, and where the loop may return.

    ## When to ignore
    When there are only a few iterations, or the items are small.

    ## References
    - [torch.cat](https://docs.pytorch.org/docs/stable/generated/torch.cat.html)
    """

    code = "TL602"
    name = "cat-in-loop"
    words = (("torch", "import *"), ("for ", "while "), ("cat(", "stack(", "concat(", "concatenate("))
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether the result of `torch.cat` is assigned to one of its arguments."""
        return super().may_concern(text) and grows_by_cat(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether `torch.cat` appends to its target in a loop that may be long."""
        return may_grow(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._collecting import fix_of
        from ._growing import Growing

        for found in module.fact(Growing).all():
            yield self.diagnostic(
                module,
                found.call,
                f"`{module.code(found.call.func)}` in a loop copies all of `{found.name}` at every iteration",
                label="copies what was collected so far",
                notes=(Note.at(module, found.loop.node, "nothing in the loop reads the result"),),
                fix=fix_of(module, found),
            )
