from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._unsharded import UnshardedLoader


class UnshardedDataloader(Rule):
    """Each process of a distributed training iterates over the whole dataset.

    ## What it does
    Flags `DataLoader(..., shuffle=True)` without a sampler whose batches train a network in a loop over epochs, in
    programs that wrap a network in `DistributedDataParallel`.

    Not reported: programs that mention a sampler, an `IterableDataset` or shards anywhere, that divide by the rank or
    the number of processes, or that use a library that divides the data (Accelerate, Lightning, DeepSpeed); datasets
    that depend on the rank; loaders under a condition; and training that counts steps instead of epochs.

    ## Why it is slow
    `DistributedDataParallel` averages the gradients and does not divide the data. With `n` processes, each of them
    loads and computes all items, so that an epoch takes `n` times as many steps as needed. `DistributedSampler` gives
    each process its own part.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for epoch in range(epochs):
        train_one_epoch(model, loader)
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader)
    ```
    Without `set_epoch`, the order is the same in every epoch.

    ## Fix safety
    Unsafe: an epoch has fewer steps, so that schedules by epoch train less, and the order only changes with
    `set_epoch`, which the fix does not add. The process group must be initialized before the loader is created. No fix
    is offered where the program also runs without `DistributedDataParallel`.

    ## When to ignore
    When each process draws its own random items on purpose, and the number of epochs takes that into account.

    ## References
    - [torch.utils.data.distributed.DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler)
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL814"
    name = "unsharded-dataloader"
    words = ("Loader", re.compile(r"shuffle\s?=\s?True"))
    project_words = ("DataLoader", "DistributedDataParallel", "epoch")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._unsharded import UnshardedLoaders

        for loader in module.fact(UnshardedLoaders).all():
            yield self.diagnostic(
                module,
                loader.call.node,
                "`DataLoader` gives each process of a distributed training the whole dataset",
                label="no `DistributedSampler`",
                notes=(
                    Note.at(module, loader.wrapper.node, "one process of several trains this network"),
                    Note.at(module, loader.consumer.node, "each process iterates over all items"),
                ),
                fix=_fix(module, loader) if loader.is_always_distributed else None,
            )


def _fix(module: Module, loader: UnshardedLoader) -> Fix | None:
    import libcst as cst

    dataset = loader.call.argument("dataset").value
    keyword = loader.shuffle.keyword
    if keyword is None or not isinstance(dataset, (cst.Name, cst.Attribute)):
        return None
    named = edits.name_module(module, "torch", loader.call.node)
    if named is None or named[1]:
        return None
    sampler = f"{named[0]}.utils.data.distributed.DistributedSampler({module.code(dataset)})"
    edited = (*edits.replace(module, keyword, "sampler"), *edits.replace(module, loader.shuffle.value, sampler))
    caution = "shorter epochs; call `set_epoch(epoch)` of the sampler before each epoch"
    return Fix("pass a `DistributedSampler`", edited, Applicability.UNSAFE, caution)
