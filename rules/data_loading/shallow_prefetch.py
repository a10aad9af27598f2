from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call


class ShallowPrefetch(Rule):
    """The workers of a DataLoader keep fewer batches ready than they could, or there are no workers to do so.

    ## What it does
    Flags `prefetch_factor=1` on a `torch.utils.data.DataLoader`, and a `prefetch_factor` without workers.

    ## Why it is slow
    `prefetch_factor` is the number of batches that each worker may have waiting or in work. With 1, a worker that has
    made its batch stands still until the training loop has taken it. Batches are handed out in order, so one that
    takes long leaves all other workers idle, and then the GPU. The default, 2, lets them work ahead.

    Without workers nothing is fetched ahead: since torch 2.0 a `prefetch_factor` without workers raises `ValueError`,
    whatever its value.

    ## Example
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, prefetch_factor=1)
    ```

    ## Use instead
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8)
    ```
    More than 2 helps only where the time per batch varies a lot: a remote store, items of very different size.

    ## Fix safety
    Advice only: how many batches fit into memory is not seen in the code.

    ## When to ignore
    When batches are so large that two per worker do not fit into host memory. A `prefetch_factor=1` with a comment on
    its row is reported at information level.

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL109"
    name = "shallow-prefetch"
    default = Default.OPT_IN
    words = ("DataLoader", "prefetch_factor")
    since = (1, 7)
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
                    "`prefetch_factor` without workers raises ValueError",
                    label="nothing is fetched ahead by the training process itself",
                    notes=(Note("`num_workers` is 0: pass at least 1, or leave `prefetch_factor` out"),),
                )
            elif depth == 1:
                yield self.diagnostic(
                    module,
                    given.node,
                    "each worker makes one batch and waits until it is taken",
                    label="`prefetch_factor` is 1, the default is 2",
                    severity=Severity.INFO if module.comment_on(given.node) else None,
                )

    def _without_workers(self, call: Call) -> bool:
        workers = call.argument("num_workers")
        return workers.absent or workers.literal() == "0"
