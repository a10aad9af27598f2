from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call


class UnpinnedDataloader(Rule):
    """`DataLoader` feeds a CUDA device without `pin_memory=True`.

    ## What it does
    Flags a `torch.utils.data.DataLoader` without `pin_memory`, or with `pin_memory=False`, if its batches are copied to
    a CUDA device: by `.to(device)`, by `.cuda()`, by a Lightning trainer on a GPU or, in training, by the loader that
    `prepare` of Accelerate's `Accelerator` returns, unless `cpu=True` or `device_placement` prevents that. The copy may
    be in `forward` of a network that gets the whole batch (`batch["image"].cuda()`). The False may also be a constant,
    an attribute of a configuration class, the default of a parameter or an entry of `**options`. It does not count if
    the command line, or code that torchlint cannot see, may override it. If the program reads the value by a key
    (`config["pin_memory"]`, `config.get("pin_memory", False)`), the YAML, JSON and TOML files of the project decide.

    A loader is not flagged

    - if the copied tensor is computed from the batch or converted to another dtype, because such a tensor is never
      pinned;
    - if its dataset is a list, and the loop that fills it computes on a CUDA device and copies nothing back;
    - if its collate function returns objects of a class of the program without a `pin_memory()` method, which a loader
      does not pin, or tuples or lists whose first element is one;
    - if it has no worker processes and each batch is the first of a new iterator (`next(iter(loader))`), so that no
      thread pins in advance;
    - if only its labels are copied, which are small, or graphs of DGL, which a loader does not pin, and what comes
      with graphs that contain the features;
    - if most parts of its batches are converted by `.float()`: the dataset then yields 64-bit numbers, and the
      conversion creates new tensors.

    ## Why it is slow
    CUDA copies only from page-locked ("pinned") memory. The driver first copies a batch from pageable memory to a
    pinned buffer, in the training thread. Such a copy cannot overlap with computation. With `pin_memory=True`, a
    separate thread of the loader copies the batches to pinned memory, and `non_blocking=True` takes effect.

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
    On a machine without an accelerator, `pin_memory=True` emits a warning.

    ## Fix safety
    Safe or unsafe: safe if the code shows that the dataset yields CPU tensors. Unsafe if the dataset, its data, the
    collate function or a function that it calls is not visible, and if a GPU is the default device: pinning a CUDA
    tensor raises an error. No fix is offered if the name `torch` is not available at this place, or if the False is
    defined outside of the call.

    ## When to ignore
    - Host memory is short. The operating system cannot swap out pinned memory.
    - The batches are small.
    - The batch is an object of your own class without a `pin_memory()` method.

    If `pin_memory=False` has a comment on its line, or one above the statement that names the argument, it is
    reported at information level.

    ## References
    - [torch.utils.data: memory pinning](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
    - [A guide on pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    """

    code = "TL102"
    name = "unpinned-dataloader"
    events = "Memcpy HtoD (Pageable"
    words = (("DataLoader", "Loader("),)
    project_words = (
        "DataLoader",
        ("cuda", "gpu", "accelerator", ".spawn(", "DataParallel", "lightning"),
    )
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders
        from torchlint.model.data.loading import Loading
        from torchlint.model.data.pinning import Pinning

        from ._defaults import at_default

        for call in module.fact(Loaders).within(module.root):
            pinning = at_default(module, call, "pin_memory", "False")
            if pinning is None:
                continue
            transfer = module.fact(Loading).transfer_to_pin_for(call)
            if transfer is None or module.fact(Loading).yields_cuda(call) or module.fact(Pinning).is_unpinnable(call):
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
        message = f"add `pin_memory={value}`" if pinning.absent else f"set `pin_memory={value}`"
        if module.fact(Loading).yields_host_tensors(call):
            return Fix(message, (*imported, *added), Applicability.SAFE)
        caution = "raises an error if the dataset or the collate function returns CUDA tensors"
        return Fix(message, (*imported, *added), Applicability.UNSAFE, caution)
