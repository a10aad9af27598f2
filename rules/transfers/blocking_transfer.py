from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._pinning import BlockingCopy


class BlockingTransfer(Rule):
    """The host waits while a pinned batch is copied to the GPU.

    ## What it does
    Flags `.to(device)` and `.cuda()` without `non_blocking=True` on a batch, or a part of one, of a
    `torch.utils.data.DataLoader` that is known to pin its batches. A batch of a loader that does not pin is not
    reported: from pageable memory `non_blocking=True` gains nothing. Once `unpinned-dataloader` (TL102) is mended, its
    copies are reported here. No tensor that was computed from a batch on the host is reported: it is not pinned.
    Copies that run once are skipped.
    A `pin_memory` that a program reads by a key (`config["pin_memory"]`) is looked up in the YAML and JSON files of
    the project: at least nine of ten values of that key must be true.
    The copies of one loop are one finding, at the first of them, with one fix; notes show the others. A `# noqa`
    on one of these lines exempts that copy alone.

    ## Why it is slow
    Without `non_blocking=True` the host waits for the copy, and so for all the kernels that were queued before it;
    only then does it queue the next step, while the GPU has nothing to do. With it, and from pinned memory, the copy is
    queued like a kernel and the host goes on at once.

    ## Example
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, pin_memory=True)
    for images, labels in loader:
        images = images.to(device)
    ```

    ## Use instead
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, pin_memory=True)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
    ```
    What runs on the GPU afterwards sees the whole copy, for it is queued behind it. On a CPU the option does nothing.

    ## Fix safety
    Safe or unsafe: safe where the loader collates by itself and the file shows that the items are tensors and
    numbers: a `TensorDataset`, a dataset of torchvision, or a `__getitem__` that returns tensors. Otherwise, or with a
    `collate_fn`, the batch may be an object of your own whose `to()` does not know `non_blocking`: unsafe. The default
    collation keeps named tuples and classes derived from dict. Unsafe, too, where the function writes to the batch on
    the host after the copy: the GPU may see the new numbers.

    ## When to ignore
    When the batch on the host is written to right after the copy, also by other code.

    ## References
    - [A guide on pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [CUDA semantics: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
    """

    code = "TL204"
    name = "blocking-transfer"
    words = ((".to(", ".cuda("),)
    project_words = ("DataLoader", "pin_memory", "for ")
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._pinning import Pinning

        for copy in module.fact(Pinning).blocking_copies():
            if module.fact(Purposes).runs_once(copy.move.call):
                continue
            yield self.diagnostic(
                module,
                copy.move.call,
                "the host waits for the copy of a pinned batch",
                label="`non_blocking` is not given",
                notes=tuple(self._notes(module, copy)),
                fix=self._fix(module, copy),
                cause=self._cause(module, copy),
            )

    def _notes(self, module: Module, copy: BlockingCopy) -> Iterator[Note]:
        from torchlint.model.semantics.config_files import ConfigFiles

        from ._pinning import Pinning

        for loader in copy.loaders:
            yield Note.at(module, loader.node, "batches are pinned by the loader")
        if copy.written is not None:
            yield Note.at(module, copy.written, "the batch on the host is written to")
        given = [item for loader in copy.loaders for item in module.fact(Pinning).options_of(loader, "pin_memory")]
        files = module.fact(ConfigFiles)
        yield from (Note(text) for text in dict.fromkeys(files.behind(item, files.true) for item in given) if text)

    def _cause(self, module: Module, copy: BlockingCopy) -> Cause:
        """One for all copies in a loop; outside of loops, in a function."""
        from torchlint.model.training.loops import Loops

        call = copy.move.call
        loop = module.fact(Loops).hot(call) or next(iter(module.fact(Loops).around(call)), None)
        place = module.function_of(call) if loop is None else loop.node
        key = None if place is None else module.tree.index(place)
        return Cause(
            (key, copy.only_tensors, copy.written is None), "also copied", "add `non_blocking=True` to all copies"
        )

    def _fix(self, module: Module, copy: BlockingCopy) -> Fix | None:
        added = edits.add_keyword(module, copy.move.call, "non_blocking", "True")
        if added is None:
            return None
        cautions = []
        if not copy.only_tensors:
            cautions.append("it raises if the batch contains objects whose method does not accept it")
        if copy.written is not None:
            cautions.append("the host batch is written to later, when it may not be copied yet")
        if cautions:
            return Fix("add `non_blocking=True`", added, Applicability.UNSAFE, "; ".join(cautions))
        return Fix("add `non_blocking=True`", added, Applicability.SAFE)
