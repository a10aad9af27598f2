from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._pinning import BlockingCopy


class BlockingTransfer(Rule):
    """Copying a pinned batch without `non_blocking=True` makes the CPU wait for the GPU.

    ## What it does
    Flags `.to(device)` and `.cuda()` without `non_blocking=True` on a batch, or a part of a batch, of a
    `torch.utils.data.DataLoader` that is known to pin its batches. A False that the program sets only if it uses no GPU
    (`if args.no_cuda: pin = False`) is ignored. So is a loader that the program creates only if an option differs from
    its default, and another one otherwise. The copy may be in `transfer_batch_to_device` of a Lightning class.

    Not flagged are

    - batches of a loader that does not pin: from pageable memory `non_blocking=True` gains nothing. After a fix of
      `unpinned-dataloader` (TL102), these copies are flagged;
    - tensors that are computed from a batch on the CPU, because they are not pinned; but those that are only computed
      under a condition, as in `if args.mixup: images = mixup(images)`, are flagged;
    - parts of each row (`tokens[:, :-1]`), which PyTorch first copies to another tensor on the host;
    - copies that run once, or for some batches only, in a hook such as `on_train_batch_end`.

    If the program reads `pin_memory` by a key (`config["pin_memory"]`), torchlint looks the key up in the YAML, JSON
    and TOML files of the project. At least nine of ten values of that key must be true.

    The copies of one loader are one finding, at the first of them, with one fix; notes show the others. `# noqa` on one
    of these lines suppresses that copy alone.

    ## Why it is slow
    Without `non_blocking=True`, the CPU waits for the copy, and therefore for all kernels that were queued before it.
    Only then does it queue the next step, while the GPU is idle. With `non_blocking=True` and pinned memory, the copy
    is queued like a kernel and the CPU continues immediately.

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
    Kernels that run on the GPU afterwards see the complete copy, because they are queued after it. On a CPU device the
    option has no effect.

    ## Fix safety
    Safe or unsafe: safe if the loader uses the default collation and the code shows that the items are tensors and
    numbers: a `TensorDataset`, a dataset of torchvision, or a `__getitem__` that returns tensors. The default collation
    keeps named tuples and classes derived from dict. Otherwise, or with a `collate_fn`, it is unsafe: the batch may be
    an object of your own whose `to()` does not accept `non_blocking`. No fix is offered if the same call also moves a
    network, whose `cuda()` does not accept it. The fix is also unsafe if the function writes to the CPU batch after the
    copy, also through a view, another name or a function of the program: the GPU may then see the new values.

    ## When to ignore
    Ignore it if the CPU batch is overwritten directly after the copy, also by other code.

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
            if module.fact(Purposes).runs_once(copy.move.call) or _is_rare(module, copy.move.call):
                continue
            yield self.diagnostic(
                module,
                copy.move.call,
                f"`.{copy.move.method}()` without `non_blocking=True` waits until the pinned batch is copied",
                label="`non_blocking` defaults to False",
                notes=tuple(self._notes(module, copy)),
                fix=self._fix(module, copy),
                cause=self._cause(module, copy),
            )

    def _notes(self, module: Module, copy: BlockingCopy) -> Iterator[Note]:
        from torchlint.model.program.config_files import ConfigFiles

        from ._pinning import Pinning

        for loader in copy.loaders:
            yield Note.at(module, loader.node, "the `DataLoader` pins its batches")
        if copy.written is not None:
            yield Note.at(module, copy.written, "the CPU batch is modified after the copy")
        given = [item for loader in copy.loaders for item in module.fact(Pinning).options_of(loader, "pin_memory")]
        files = module.fact(ConfigFiles)
        yield from (Note(text) for text in dict.fromkeys(files.behind([item], files.true) for item in given) if text)

    def _cause(self, module: Module, copy: BlockingCopy) -> Cause:
        """One cause for all copies in a loop; outside of loops, in a function."""
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
        if added is None or copy.is_shared:
            return None
        cautions = []
        if not copy.only_tensors:
            cautions.append("raises an error if an object in the batch does not accept `non_blocking`")
        if copy.written is not None:
            cautions.append("may copy values that the CPU batch gets later")
        if cautions:
            return Fix("add `non_blocking=True`", added, Applicability.UNSAFE, "; ".join(cautions))
        return Fix("add `non_blocking=True`", added, Applicability.SAFE)


def _is_rare(module: Module, call: cst.Call) -> bool:
    """Whether a copy is in a hook that a library calls for each batch, and runs for some of them only."""
    from torchlint.model.training.iterations import Iterations

    function = module.function_of(call)
    if function is None or not function.name.value.startswith("on_"):
        return False
    return not module.fact(Iterations).at_every_iteration(call, function, or_often=True)
