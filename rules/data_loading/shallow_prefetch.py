from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call


class ShallowPrefetch(Rule):
    """`prefetch_factor=1` makes each worker process wait until its batch is consumed.

    ## What it does
    Flags `prefetch_factor=1` of a `torch.utils.data.DataLoader`, and a `prefetch_factor` without worker processes.

    ## Why it is slow
    `prefetch_factor` is the number of batches that each worker process prepares ahead. With 1, a worker that has
    finished its batch waits until the training loop takes it. Batches are delivered in order: while one batch takes
    long, all other workers are idle, and then the GPU waits. The default is 2.

    Without worker processes nothing is prefetched. Since torch 2.0, a `prefetch_factor` without workers raises
    `ValueError`, whatever its value.

    ## Example
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, prefetch_factor=1)
    ```

    ## Use instead
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8)
    ```
    More than 2 helps only if the time per batch varies much, as with remote storage or items of very different sizes.

    ## Fix safety
    Advice only: the code does not show how many batches fit into memory.

    ## When to ignore
    Ignore it if two batches per worker do not fit into host memory. If `prefetch_factor=1` has a comment on its line,
    it is reported at information level.

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL109"
    name = "shallow-prefetch"
    default = Default.OPT_IN
    words = ("prefetch_factor",)
    project_words = ("DataLoader",)
    since = (1, 7)
    events = "enumerate(DataLoader)#"
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders

        for call in module.fact(Loaders).within(module.root):
            given = call.argument("prefetch_factor")
            depth = module.value(given.value).constant
            if given.node is None or not isinstance(depth, int) or isinstance(depth, bool):
                continue
            if self._without_workers(call):
                yield self.diagnostic(
                    module,
                    given.node,
                    "`prefetch_factor` without worker processes raises `ValueError`",
                    label="only worker processes prefetch",
                    notes=(Note("`num_workers` is 0; set it to at least 1, or remove `prefetch_factor`"),),
                )
            elif depth == 1:
                yield self.diagnostic(
                    module,
                    given.node,
                    "`prefetch_factor=1` makes each worker process wait until its batch is consumed",
                    label="the default is 2",
                    severity=Severity.INFO if module.comment_on(given.node) else None,
                )

    def _without_workers(self, call: Call) -> bool:
        workers = call.argument("num_workers")
        return workers.absent or workers.literal() == "0"
