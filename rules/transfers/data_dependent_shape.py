from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class DataDependentShape(Rule):
    """An operation whose output has a data-dependent shape waits for the GPU at every step.

    ## What it does
    Flags these operations on tensors of a network on a GPU, once per batch: `nonzero`, `argwhere`, `torch.where` with
    one argument, `masked_select`, `unique`, `bincount`, `one_hot` without `num_classes`, and `repeat_interleave` of a
    tensor of counts without `output_size`.

    Not reported are tensors on the CPU, arrays, rows with a comment on the synchronization, and indexing with a mask,
    which TL216 reports in losses.

    ## Why it is slow
    Only the GPU knows how many items the output has. The CPU must wait for this number before it can allocate the
    output, and until then it launches nothing. The shape differs from step to step, which prevents CUDA graphs and
    makes `torch.compile` break the graph.

    ## Example
    ```python
    index = F.one_hot(assignments)
    positive = torch.masked_select(losses, losses > 0).sum()
    ```

    ## Use instead
    ```python
    index = F.one_hot(assignments, num_classes=experts)
    positive = torch.where(losses > 0, losses, 0.0).sum()
    ```
    `num_classes`, `output_size` and `torch.nonzero_static` (with a `fill_value`; on CUDA since torch 2.7) fix the size
    of the output. Elsewhere, compute with all items and drop some by `torch.where`, `masked_fill` or weights of 0. For
    counts, `counts = torch.zeros(n, dtype=torch.long, device=x.device)` and `counts.scatter_add_(0, x,
    torch.ones_like(x))` replace `bincount`.

    ## Fix safety
    Advice: only the author knows the size, or whether the other items may be computed as well.

    ## When to ignore
    When few of very many items are needed, as for the experts of a mixture: to compute all of them may take longer than
    the wait.

    ## References
    - [torch.nonzero](https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html)
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL213"
    name = "data-dependent-shape"
    default = Default.OPT_IN
    words = (
        ("nonzero(", "argwhere(", "masked_select(", "unique", "bincount(", ".where(", "one_hot(", "repeat_interleave("),
    )
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._dynamic_shapes import DynamicShapes

        for found in module.fact(DynamicShapes).all():
            place = found.step.calls[0] if found.step.calls else found.step.step
            yield self.diagnostic(
                module,
                found.call,
                f"`{found.name}` waits for the GPU at every step to learn the shape of its output",
                label=f"`{found.missing}` is not given" if found.missing else "the shape depends on the data",
                notes=(Note.at(module, place, "runs at every step"),),
                cause=Cause((module.function_of(found.call), found.name), "also waits"),
            )
