from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call

#: Why there is no fix where the dataset counts or collects.
_LOST = "no fix: other code reads what a worker process would store"


class SingleProcessDataloader(Rule):
    """A DataLoader that feeds a GPU loads every batch in the training process.

    ## What it does
    Flags a `torch.utils.data.DataLoader` without `num_workers` (or with `num_workers=0`) whose batches feed a network
    in a file that uses CUDA. The 0 may also be a constant, an attribute of a configuration class, the default of a
    parameter or an entry of `**options`, unless the command line or code out of sight can replace it.

    ## Why it is slow
    With no workers the training process itself reads, decodes and augments the items of a batch, and the GPU waits
    for it. Workers do this in processes of their own while the GPU computes the previous batch.

    ## Example
    ```python
    loader = DataLoader(Photos(root), batch_size=64, shuffle=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(Photos(root), batch_size=64, shuffle=True, num_workers=min(8, os.cpu_count() or 1))
    ```
    Start with the number of cores per GPU, at most 8, and measure: more workers cost memory and start-up time. The
    expression that the fix inserts is the setting `num-workers` of `[tool.torchlint.rules.single-process-dataloader]`.

    ## Fix safety
    Unsafe: each worker has random state of its own, so random augmentation differs, and so does the order of items
    from the second epoch on. An `IterableDataset` that does not ask `get_worker_info()` yields all of its items in
    every worker: one of the program is not flagged, but one of a library may be. What a dataset stores while it makes
    an item stays in the worker process. No fix is offered where other code of the program reads that, where the loader
    is built at module level of a script without `if __name__ == "__main__":` (processes that are spawned import the
    script again), where a lambda or a local function would have to be sent to the workers, or where the 0 is written
    elsewhere.

    ## When to ignore
    When loading an item costs next to nothing (tensors or arrays already in memory: workers then only add copies),
    when an epoch is so short that starting the workers takes longer than it saves, when the dataset makes CUDA
    tensors, or when debugging. A `num_workers=0` with a comment on its row is reported
    at information level only.

    ## References
    - [torch.utils.data: single- and multi-process loading](https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading)
    """

    code = "TL101"
    name = "single-process-dataloader"
    words = ("DataLoader",)
    project_words = (("cuda", "ightning", "ccelerat", "Fabric", ".spawn("),)
    demo = ("GPU", "CPU")
    options = {"num-workers": "min(8, os.cpu_count() or 1)"}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders
        from torchlint.model.data.loading import Loading

        from ._defaults import at_default
        from ._item_state import lost_state

        for call in module.fact(Loaders).within(module.root):
            workers = at_default(module, call, "num_workers", "0")
            if workers is None:
                continue
            consumer = module.fact(Loading).waits_for(call)
            if consumer is None:
                continue
            lost = lost_state(module, call)
            yield self.diagnostic(
                module,
                call.node,
                f"`DataLoader` {'without `num_workers`' if workers.absent else 'with `num_workers=0`'}"
                " loads every batch in the training process",
                label="`num_workers` defaults to 0" if workers.absent else "`num_workers` is 0",
                notes=(
                    Note.at(
                        module,
                        consumer.node,
                        f"the GPU waits while the next {self._items(call)} load; batches are consumed",
                    ),
                    *workers.notes(module, "0"),
                    *(() if lost is None else (Note.at(module, lost, _LOST),)),
                ),
                fix=None
                if workers.deliberate or workers.is_elsewhere or lost is not None
                else self._fix(module, call, workers.argument),
                severity=Severity.INFO if workers.deliberate else None,
            )

    def _items(self, call: Call) -> str:
        size = call.argument("batch_size").literal()
        return f"{size} items" if size is not None and size.isdigit() and size != "1" else "items"

    def _fix(self, module: Module, call: Call, workers: Argument) -> Fix | None:
        from ._workers import can_have_workers, may_be_iterable

        if not can_have_workers(module, call):
            return None
        value = str(module.option(self.name, "num-workers") or self.options["num-workers"])
        named = edits.name_module(module, "os", call.node) if re.search(r"\bos\.", value) else ("os", ())
        if named is None:
            return None
        value = re.sub(r"\bos\.", f"{named[0]}.", value)
        passed = edits.set_argument(module, call.node, "num_workers", workers, value)
        if passed is None:
            return None
        message = f"{'add' if workers.absent else 'pass'} `num_workers={value}`"
        caution = "random augmentation, and the order of items from the second epoch on"
        if may_be_iterable(module, call):
            caution += "; every worker would yield all items of an unsharded `IterableDataset`"
        return Fix(message, (*named[1], *passed), Applicability.UNSAFE, caution)
