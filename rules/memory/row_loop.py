from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

from ._row_sketch import may_join_rows, may_write_rows
from ._row_words import joins_rows, writes_rows

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class RowLoop(Rule):
    """A Python loop writes or computes a tensor row by row, or counts its elements one by one.

    ## What it does
    Flags `for` loops whose body consists of writes to rows of tensors that one operation can do at once:

    - `out[i] = f(x[i], y[i])`, where `f` is arithmetic and functions of torch that compute each row by itself, also of
      the row that it replaces (`x[i] = torch.triu(x[i])`), and pairs (`out[i, j] = torch.dist(x[n, i], y[n, j])`),
      also of rows behind others (`out[start + i] = x[order[i]]`), of the rows of images (`out[:, :, i]`), and with the
      number of the row (`x[i] * (i / n)`);
    - `mask[i, :length] = 1` or `mask[i, :length].fill_(1)`, which fill each row up to a length of its own, and
      `row[:length] = 0` in `for row, length in zip(mask, lengths)`, also up to a place that is computed from the number
      of the row (`mask[i, : (i // chunk + 1) * chunk] = 1`);
    - `out[i] = row` and `out[i, 3] = 0`, the same in all rows, and `out[i, labels[i]] = 1`, one item of each row,
      which a list may name if `out` is on the GPU;
    - `out[i] = x[i, places[i]]` and `out[i] = x[i, :, start:end]`, an item or a window of each row, and
      `out[k, place] = x[k, place]`, the same items of another tensor; the indices may have names;
    - `out[:, i] = x[:, j]` in `for i, j in enumerate(index)`, rows or columns that an index selects;
    - `out[i].index_add_(0, index[i], source[i])`, and `scatter_` and the like;
    - `matrix[t, p] += 1` over the elements of one tensor or of several (`zip(targets.view(-1), guesses.view(-1))`),
      also over `labels.tolist()` if `matrix` is a tensor;
    - `mask[places[i]] = 1` and `matrix[edges[i, 0], edges[i, 1]] = 1`, the same value at all places that a tensor
      names, or a list if what is written is on the GPU;
    - `sums[labels[i]] += x[i]`, which adds each row to the one that a tensor names;
    - `places[:, i] += i * size`, which shifts each row or column by a multiple of its number;
    - `keep[i] = labels[i] in ids`, whether each element of a tensor is one of the same numbers;
    - `mask.scatter_(1, i + torch.topk(x[:, i : i + m], n, dim=1)[1], True)`, group by group of the columns.

    The writes may be under conditions of a row: `if last[i] == end: scores[i] = -1e20`. Also flags rows that are
    computed one by one and joined: `torch.stack([x[i] / n[i] for i in range(size)])`, `torch.stack([start + i * step
    for i in range(size)])`, by a lambda (`get(i)`) as well, also sums, means and the like of rows up to a length of
    their own (`torch.mean(x[i, : lengths[i]], dim=0)`), and a loop that only appends such rows to lists for
    `torch.stack` or `torch.cat`.

    Not reported: loops in which an iteration reads what another one has written; rows that a network or a function of
    the program computes; `torch.stack` of rows that are only selected (`x[i]`, `x[i, :, start:end]`, `x[i, places[i]]`
    with places on the CPU), which are views; loops with few iterations, such as over classes, layers or channels; loops
    that run once, in a constructor, in a function that only constructors call, or at the top level of a file.

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
    Conditions of a row are `torch.where`, or an index: `scores[last == end] = -1e20`. One item of each row is
    `out.scatter_(1, labels[:, None], 1)`, and sums by label are `sums.index_add_(0, labels, x)`. Selected columns are
    `x[:, index]`. Windows of rows are one `x.gather(2, index)` of `start[:, None] + torch.arange(size)`. Rows that
    `index_add_` writes are one `out.scatter_add_(1, index, source)`. A mean up to lengths is
    `(x * mask).sum(1) / lengths[:, None]`, groups of columns are `x.view(len(x), -1, m)`, and `labels[i] in ids` is
    `torch.isin(labels, ids)`.

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
    words = ("for ", ("] ", "]=", "].", "stack(", "cat("))
    project_words = ("torch",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether the body of a loop may begin with an assignment to an item, or a list of rows may be joined."""
        return super().may_concern(text) and (writes_rows(text) or joins_rows(text))

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether the body of a loop only writes items that the loop variables name, or a list of rows is joined."""
        return may_write_rows(sketch) or may_join_rows(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._row_lists import RowLists
        from ._rows import LoopsOverRows

        for found in module.fact(LoopsOverRows).all():
            name = module.code(found.target)
            yield self.diagnostic(
                module,
                found.loop.iter,
                f"loop counts elements of a tensor one by one in `{name}`"
                if found.counts
                else f"loop writes `{name}` row by row",
                label="a kernel launch for each element" if found.counts else "kernel launches for each row",
            )
        for joined in module.fact(RowLists).all():
            yield self.diagnostic(
                module,
                joined.node,
                f"rows are computed one by one for `{module.code(joined.calls[0].func)}`",
                label="kernel launches for each row",
                notes=tuple(Note.at(module, call, "the rows are joined") for call in joined.calls),
            )
