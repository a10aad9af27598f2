from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call

#: The reason for no fix where the dataset changes its own attributes.
_LOST = "no fix: the worker processes would not share the state that is read"


class SingleProcessDataloader(Rule):
    """`DataLoader` without `num_workers` loads every batch in the training process.

    ## What it does
    Flags a `torch.utils.data.DataLoader` without `num_workers`, or with `num_workers=0`, if its batches feed a network
    in a program that uses CUDA, or are copied to a CUDA device. The 0 may also be a constant, an attribute of a
    configuration class, the default of a parameter or an entry of `**options`. It does not count if the command line,
    or code that torchlint cannot see, may override it. If the program reads the number by a key
    (`config["num_workers"]`), the YAML, JSON and TOML files of the project decide.

    With `batch_size=None`, where the dataset makes the batches, only a stream is flagged of which one step reads files
    and each worker process takes a part (`Lines(path).sharding_filter().map(decode).batch(8)`).

    A dataset that is seen to take its items from memory is not flagged, unless the collate function reads files. Nor is
    one of unknown class that an earlier run saved (`torch.load(path)["dataset"]`). The dataset may be a list of items
    of another one (`items.append(photos[index])`). It may pass its items to a transform of the program that computes
    little, such as a rotation of points, or join them (`np.concatenate`). If it takes them from another dataset
    (`self.photos[index]`), that one decides. The `DataLoader` of PyG and that of MONAI count as torch's. A dataset of
    PyG is not flagged, unless a class of the program loads its items.

    ## Why it is slow
    Without worker processes, the training process reads, decodes and augments every item. The GPU waits until the batch
    is complete. Worker processes prepare the next batches while the GPU computes the current one.

    ## Example
    ```python
    loader = DataLoader(Photos(root), batch_size=64, shuffle=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(Photos(root), batch_size=64, shuffle=True, num_workers=min(8, os.cpu_count() or 1))
    ```
    Start with the number of CPU cores per GPU, at most 8, and measure. More workers need more memory and more start-up
    time. The option `num-workers` sets the expression that the fix inserts.

    ## Fix safety
    Unsafe: each worker process has its own random state. Random augmentation therefore differs, and so does the order
    of items from the second epoch on. Every worker yields all items of an `IterableDataset` that does not call
    `get_worker_info()`. torchlint skips such a dataset if it is defined in the program, but cannot recognize one from a
    library.

    Attributes that a dataset changes in `__getitem__` change only in the worker process. No fix is offered

    - if other code of the program reads such an attribute;
    - if a script creates the loader at module level without `if __name__ == "__main__":`, because spawned processes
      import the script again;
    - if a lambda or a local function would have to be sent to the workers;
    - if the 0 is defined outside of the call.

    ## When to ignore
    - Items are cheap to load, such as tensors or arrays in memory. Workers then only add copies.
    - An epoch is so short that starting the workers takes longer than they save.
    - The dataset creates CUDA tensors.
    - You are debugging.

    If `num_workers=0` has a comment on its line, or one above the statement that names the argument, it is reported at
    information level.

    ## References
    - [torch.utils.data: single- and multi-process loading](https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading)
    """

    code = "TL101"
    name = "single-process-dataloader"
    words = (("DataLoader", "Loader("),)
    project_words = (
        "DataLoader",
        ("cuda", "ightning", "ccelerat", "Fabric", ".spawn(", "DataParallel"),
    )
    events = "enumerate(DataLoader)#"
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
        message = f"{'add' if workers.absent else 'set'} `num_workers={value}`"
        caution = "changes random augmentation, and the order of items from the second epoch on"
        if may_be_iterable(module, call):
            caution += "; repeats the items of an unsharded `IterableDataset` in every worker"
        return Fix(message, (*named[1], *passed), Applicability.UNSAFE, caution)
