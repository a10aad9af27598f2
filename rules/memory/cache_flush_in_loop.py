from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule
from torchlint.source.lexemes import names

from ._flush_sketch import may_flush, may_flush_per_step

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._flushes import Flush


class CacheFlushInLoop(Rule):
    """The allocator's cache is emptied, or the garbage collector runs, at every step of a loop.

    ## What it does
    Flags `torch.cuda.empty_cache()`, its counterparts for other accelerators, and `gc.collect()` at every step of a
    training loop, or of a loop that runs a network over a loader or other data. The flush may be in the loop, or in a
    function that the loop calls, also in another file, in what the `forward` of a network runs, or in the steps of
    Lightning. A call of a function that does nothing but flush is reported where the step calls it.

    Not reported: flushes once per epoch, before a validation pass or after an inner loop with a network, in an `except`
    block, under a condition other than one on the device (a step counter, a memory limit, an option), in loops that
    build or load a network in each iteration, and in functions for benchmarks, offloading or loading. `gc.collect()` is
    not reported where a program turns the collector off and runs it itself.

    ## Why it is slow
    `empty_cache()` returns every unused block to the driver with `cudaFree`, which waits for the GPU. The next step
    needs the same blocks again and allocates them with `cudaMalloc`. Without the call, the caching allocator gives
    out its free blocks without a call to the driver. Emptying the cache does not make more memory available to the
    process itself. `gc.collect()` visits every Python object of the process, although reference counts have
    already freed the tensors of the last step.

    ## Example
    ```python
    for images, labels in loader:
        loss = train_step(images, labels)
        gc.collect()
        torch.cuda.empty_cache()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        loss = train_step(images, labels)
    ```
    If memory is short, free it at the few places where a phase ends, or at every hundredth step. If it is fragmented,
    set `PYTORCH_ALLOC_CONF=expandable_segments:True` (`PYTORCH_CUDA_ALLOC_CONF` before torch 2.9).

    ## Fix safety
    Unsafe: the process keeps the memory that it has used once, and memory in reference cycles until the collector
    runs by itself. Other processes on the same GPU get less of it, and with inputs of many sizes fragments may add up.
    An `if` that only asks for the device and flushes is deleted with the flush, and an import that only the flush uses
    is removed. No fix is offered where the flush is a part of a larger statement.

    ## When to ignore
    When the program runs out of memory without it, or shares the GPU with another process that needs the memory.

    ## References
    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    - [CUDA semantics: memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
    """

    code = "TL601"
    name = "cache-flush-in-loop"
    words = (
        (
            "cache",
            "collect",
            "mem",
            "gpu",
            "cuda",
            "ram",
            "clean",
            "clear",
            "empty",
            "flush",
            "free",
            "release",
            "purge",
        ),
    )
    project_words = (
        ("empty_cache", "gc.collect", "import collect"),
        ("for ", "while ", "def forward(", "_step(", "def compute_loss("),
        "torch",
    )
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether a file calls something that may flush."""
        return super().may_concern(code) and any(f"{name}(" in code for name in filter(may_flush, names(code)))

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether something that may be a step flushes."""
        return may_flush_per_step(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._flushes import Flushes

        if not module.uses_torch:
            return
        flushes = list(module.fact(Flushes).all())
        calls = [flush.call for flush in flushes]
        for flush in flushes:
            what = "runs the garbage collector" if flush.collects else "empties the allocator's cache"
            yield self.diagnostic(
                module,
                flush.call,
                f"`{flush.name}()` {what} at every {'training step' if flush.step.trains else 'iteration'}",
                label="visits every Python object" if flush.collects else "the next step allocates this memory again",
                notes=tuple(_notes(module, flush)),
                fix=_fix(module, flush, calls),
                cause=Cause((module.tree.index(flush.step.step), module.function_of(flush.call)), "also flushed"),
            )


def _notes(module: Module, flush: Flush) -> Iterator[Note]:
    yield Note.at(module, flush.step.step, "the step begins")
    if flush.step.calls:
        yield Note.at(module, flush.step.calls[0], "runs at every step by this call")


def _fix(module: Module, flush: Flush, others: list[cst.Call]) -> Fix | None:
    statement = edits.statement_of_call(module, flush.call)
    edited = edits.delete_with_block(module, statement) if statement is not None else None
    if edited is None:
        return None
    edited = edits.with_unused_imports(module, edited, flush.call.func, others)
    if flush.collects:
        return Fix("remove the call", edited, Applicability.UNSAFE, "reference cycles are freed later")
    return Fix("remove the call", edited, Applicability.UNSAFE, "the process keeps more memory reserved")
