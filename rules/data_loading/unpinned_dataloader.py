from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call


class UnpinnedDataloader(Rule):
    """The batches of a DataLoader go to a CUDA device from pageable memory.

    ## What it does
    Flags a `torch.utils.data.DataLoader` without `pin_memory` (or with `pin_memory=False`) whose batches are copied to
    a CUDA device in the same file, by `.to(device)`, `.cuda()` or a Lightning trainer on a GPU. A copy of what is
    computed from a batch on the host, or converted to another type, does not count: that tensor is not pinned in any
    case. Nor is a loader flagged if only its labels are copied, which are a few numbers, or if most parts of its
    batches are cast by `.float()`: the dataset then yields 64-bit numbers, and the casts make new tensors. The False
    may also be a constant, an attribute of a configuration class, the default of a parameter or an entry of
    `**options`, unless the command line or code out of sight can replace it.

    ## Why it is slow
    CUDA copies only from page-locked ("pinned") memory. A batch in pageable memory is first copied to a pinned buffer
    by the driver, on the thread that trains, and such a copy cannot overlap with computation. A loader that pins does
    this in a thread of its own, and lets `non_blocking=True` take effect.

    ## Example
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8)
    for images, labels in loader:
        images = images.to("cuda", non_blocking=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, pin_memory=torch.cuda.is_available())
    for images, labels in loader:
        images = images.to("cuda", non_blocking=True)
    ```
    A plain `pin_memory=True` warns on machines without an accelerator.

    ## Fix safety
    Safe or unsafe: safe where the file shows that the dataset yields host tensors: what it contains is made there, too.
    Unsafe where the dataset, its data, the collate function or a function that it calls come from elsewhere, and where
    a GPU is the default device, for pinning a batch that is already on the GPU raises. No fix is offered
    where the place does not know `torch` by name, or where the False is written elsewhere.

    ## When to ignore
    When host memory is short (pinned memory cannot be swapped out), when batches are small, or when the batch is an
    object of your own class without a `pin_memory()` method. A `pin_memory=False` with a comment on its row is reported
    at information level only.

    ## References
    - [torch.utils.data: memory pinning](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
    - [A guide on pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    """

    code = "TL102"
    name = "unpinned-dataloader"
    words = ("DataLoader",)
    project_words = (("cuda", "gpu", "accelerator", ".spawn("),)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders
        from torchlint.model.data.loading import Loading

        from ._defaults import at_default

        for call in module.fact(Loaders).within(module.root):
            pinning = at_default(module, call, "pin_memory", "False")
            if pinning is None:
                continue
            transfer = module.fact(Loading).transfer_to_pin_for(call)
            if transfer is None or module.fact(Loading).yields_cuda(call):
                continue
            yield self.diagnostic(
                module,
                call.node,
                "`DataLoader` feeds a CUDA device without `pin_memory=True`",
                label="`pin_memory` defaults to False" if pinning.absent else "`pin_memory` is False",
                notes=(
                    Note.at(module, transfer, "batches are copied to the GPU"),
                    *pinning.notes(module, "False"),
                ),
                fix=None if pinning.deliberate or pinning.is_elsewhere else self._fix(module, call, pinning.argument),
                severity=Severity.INFO if pinning.deliberate else None,
            )

    def _fix(self, module: Module, call: Call, pinning: Argument) -> Fix | None:
        from torchlint.model.data.loading import Loading

        named = edits.name_module(module, "torch", call.node)
        if named is None:
            return None
        torch, imported = named
        value = f"{torch}.cuda.is_available()"
        added = edits.set_argument(module, call.node, "pin_memory", pinning, value)
        if added is None:
            return None
        message = f"add `pin_memory={value}`" if pinning.absent else f"pass `pin_memory={value}`"
        if module.fact(Loading).yields_host_tensors(call):
            return Fix(message, (*imported, *added), Applicability.SAFE)
        caution = "it raises if the dataset or the collate function, not all seen here, yields CUDA tensors"
        return Fix(message, (*imported, *added), Applicability.UNSAFE, caution)
