from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class UnsynchronizedHostRead(Rule):
    """A copy to the CPU with `non_blocking=True` is read before it has finished.

    ## What it does
    Flags `x.to("cpu", non_blocking=True)` whose values are read

    - by the next method or function: `.numpy()`, `.tolist()`, `.float()`, `float(...)`;
    - under the name that they are assigned to, in one of the next statements of the block, if nothing in between can
      wait for the GPU.

    Not reported are copies that are kept for later; copies that a `synchronize()`, an event, another copy to the CPU or
    an unknown function may follow; copies of tensors that are on the CPU; and copies to a GPU, which need no wait.

    ## Why it is slow
    It is not slow but wrong. The copy to the CPU goes into pinned memory, and the call returns before the copy has
    begun. What reads the tensor then gets what was in that memory before. The values are right whenever the GPU
    happens to be fast enough, so that tests often pass.

    ## Example
    ```python
    mask = (logits > 0).to("cpu", non_blocking=True).numpy()
    ```

    ## Use instead
    ```python
    mask = (logits > 0).to("cpu").numpy()
    ```
    To copy while the CPU does something else, wait before the first read:

    ```python
    mask = (logits > 0).to("cpu", non_blocking=True)
    prepare_next_batch()
    torch.cuda.current_stream().synchronize()
    mask = mask.numpy()
    ```

    ## Fix safety
    Unsafe: the values change from wrong ones to right ones, and the CPU waits for the copy.

    ## When to ignore
    When the tensor is always on the CPU.

    ## References
    - [A guide on good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [CUDA semantics: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
    """

    code = "TL214"
    name = "unsynchronized-host-read"
    words = ("non_blocking", "cpu", ".to(")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._early_reads import EarlyReads

        reads = module.fact(EarlyReads)
        for found in reads.all():
            flag = reads.flag(found.copy)
            removed = edits.remove_argument(module, found.copy, flag) if flag is not None else None
            fix = None
            if removed is not None and not module.comment_on(found.copy):
                caution = "the CPU waits for the copy"
                fix = Fix("remove `non_blocking=True`", removed, Applicability.UNSAFE, caution)
            yield self.diagnostic(
                module,
                found.copy,
                "copy to the CPU with `non_blocking=True` is read before it has finished",
                label="returns before the values are there",
                notes=(Note.at(module, found.read, "reads the values"),),
                fix=fix,
            )
