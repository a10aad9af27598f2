from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Rule

from ._row_sketch import may_write_rows
from ._row_words import writes_rows

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class RowLoop(Rule):
    """A Python loop writes a tensor row by row, or counts its elements one by one.

    ## What it does
    Flags kinds of `for` loops whose body consists of writes to items of tensors:

    - `mask[i, :length] = 1` or `mask[i, :length].fill_(1)`, which fill each row up to a length of its own, also under
      a condition that asks whether something is left (`if length < size: scores[i, length:] = -np.inf`);
    - `out[i] = f(x[i], y[i])`, where `f` is arithmetic and functions of torch that compute each row by itself, also of
      the row that it replaces (`x[i] = torch.triu(x[i])`), or of the same items of each row (`x[i, [1, 3]]`);
    - `out[i] = x[i, :, start:end]`, a window of each row, and `out[k, place] = x[k, place]`, the same items of another
      tensor; the indices may have names, such as `start = starts[i]`;
    - `out[:, i] = x[:, j]` in `for i, j in enumerate(index)`, rows or columns that an index selects;
    - `out[i].index_add_(0, index[i], source[i])`, and `scatter_` and the like;
    - `matrix[t, p] += 1` over the elements of one tensor or of several (`zip(targets.view(-1), guesses.view(-1))`).

    Not reported: loops in which an iteration reads what another one has written; rows that a network or a function of
    the program computes; loops with few iterations, such as over classes, layers or channels; loops that run once, in
    a constructor or at the top level of a file.

    ## Why it is slow
    Each iteration launches its own kernels, for a row or a single element. On a GPU a kernel launch takes longer than
    the work on a row, and an index that is a GPU tensor waits for all kernels before it. One operation on the whole
    tensor needs one launch.

    ## Example
    ```python
    mask = torch.zeros(len(lengths), size, dtype=torch.bool)
    for i, length in enumerate(lengths):
        mask[i, :length] = True
    ```

    ## Use instead
    ```python
    mask = torch.arange(size) < torch.as_tensor(lengths)[:, None]
    ```
    To count pairs, as for a confusion matrix, compute one number for each pair:

    ```python
    pairs = targets.flatten() * classes + guesses.flatten()
    matrix += torch.bincount(pairs, minlength=classes**2).view(classes, classes)
    ```
    Selected columns are `x[:, index]`. Windows of rows are one `x.gather(2, index)` of
    `start[:, None] + torch.arange(size)`. Rows that `index_add_` writes are one `out.scatter_add_(1, index, source)`.

    For rows, apply the function to the whole tensor, with `dim=` where it reduces; `torch.vmap` does this for a
    function of one row.

    ## Fix safety
    Advice, no fix: the operation on the whole tensor depends on its dimensions.

    ## When to ignore
    When there are only a few rows, or the loop runs seldom.

    ## References
    - [torch.vmap](https://docs.pytorch.org/docs/stable/generated/torch.vmap.html)
    - [torch.bincount](https://docs.pytorch.org/docs/stable/generated/torch.bincount.html)
    """

    code = "TL603"
    name = "row-loop"
    words = ("torch", "for ", ("] = ", "] += ", "]."))
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether the body of a loop may begin with an assignment to an item of the loop variable."""
        return super().may_concern(text) and writes_rows(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether the body of a loop only writes items that the loop variables name."""
        return may_write_rows(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._rows import RowLoops

        for found in module.fact(RowLoops).all():
            name = module.code(found.target)
            yield self.diagnostic(
                module,
                found.loop.iter,
                f"loop counts elements of a tensor one by one in `{name}`"
                if found.counts
                else f"loop writes `{name}` row by row",
                label="a kernel launch for each element" if found.counts else "kernel launches for each row",
            )
