from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.data.datasets import CudaWork
    from torchlint.model.module import Module


class CudaInDataset(Rule):
    """A dataset, transform or collate function moves its items to the GPU or creates them there.

    ## What it does
    Flags `.cuda()`, `.to(device)` and tensors created with `device=` in `__getitem__`, `__getitems__` or `__iter__` of
    a `torch.utils.data.Dataset`, in a `transform`, and in a function passed as `collate_fn`. Functions that these call
    directly are included.

    ## Why it is slow
    Every item needs its own copy and its own kernel launches, where one copy per batch is enough. It also rules out
    worker processes: CUDA cannot be used in a forked worker, so the loader must load everything in the training
    process.

    ## Example
    ```python
    class Photos(Dataset):
        def __getitem__(self, index):
            return self.images[index].to(self.device), self.labels[index].to(self.device)
    ```

    ## Use instead
    ```python
    class Photos(Dataset):
        def __getitem__(self, index):
            return self.images[index], self.labels[index]


    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
    ```
    A dataset that fits into GPU memory may move all its data once, in `__init__`. This is not flagged.

    ## Fix safety
    Unsafe: items that other code takes from the dataset stay on the CPU. A fix is offered if `__getitem__` returns what
    it moves, unchanged or after arithmetic with numbers. Every loop over the loaders of the dataset must be in the same
    file and unpack its batches into names.

    ## When to ignore
    Ignore it if the work needs the GPU, such as hardware decoding, and runs in the training process on purpose.

    ## References
    - [torch.utils.data: multi-process loading and CUDA](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading)
    - [CUDA in forked subprocesses](https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing)
    """

    code = "TL105"
    name = "cuda-in-dataset"
    words = (
        (".cuda(", ".to(", "device=", "device = "),
        ("__getitem__", "__iter__", "__call__", "collate", "transform"),
    )
    project_words = (("Dataset", "DataLoader"),)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.datasets import ItemRole
        from torchlint.model.data.loading import Loading

        for work in module.fact(Loading).all_cuda_work():
            unit = "batch" if work.role is ItemRole.COLLATE else "item"
            yield self.diagnostic(
                module,
                work.node,
                f"`{work.name}` moves each {unit} to the GPU"
                if work.moves
                else f"`{work.name}` uses the GPU for each {unit}",
                label=f"once per {unit}",
                notes=(Note.at(module, work.place, f"the `DataLoader` calls this `{work.name}` for each {unit}"),),
                fix=self._fix(module, work),
            )

    def _fix(self, module: Module, work: CudaWork) -> Fix | None:
        from ._relocation import relocation

        plan = relocation(module, work)
        if plan is None:
            return None
        changes: list[Edit] = []
        for move in plan.moves:
            dropped = edits.drop_method_call(module, move)
            if dropped is None:
                return None
            changes += dropped
        for loop, names in plan.loops:
            rows = [f"{name} = {name}{plan.suffix}" for name in names]
            inserted = edits.insert_above_comments(module, loop.body.body[0], *rows) if rows else ()
            if inserted is None:
                return None
            changes += inserted
        message = "move whole batches to the GPU in the loop over the `DataLoader`"
        caution = "leaves items on the CPU that other code takes from the dataset"
        return Fix(message, tuple(changes), Applicability.UNSAFE, caution)
