from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._device_waits import DeviceWait


class SynchronizeInLoop(Rule):
    """The host waits until the GPU has finished, at every step of a loop that times nothing.

    ## What it does
    Flags `torch.cuda.synchronize()`, its counterparts for other accelerators, and
    `torch.cuda.current_stream().synchronize()` at every step of a training loop, or of a loop that runs a network over
    data. The call may be in the loop, or in a function that the loop calls, also in another file.

    Not reported: steps that read a clock, use a timer or read how much memory is used, also in a generator of the
    program that the loop iterates over; conditions other than one on the device; functions named for timing or
    debugging; programs with streams or CUDA graphs of their own or with other libraries that queue work on the GPU; and
    steps that copy to the host with `non_blocking=True` or hand data to another process.

    ## Why it is slow
    The host launches kernels ahead of the GPU, so that the GPU always has the next one. After a wait, the GPU is idle
    while the host prepares the next step: it fetches a batch and launches the first kernels. The wait is not needed
    for correct results: kernels of one stream run in order, and `.item()`, `.cpu()` and `print` wait by themselves.

    ## Example
    ```python
    for images, labels in loader:
        loss = train_step(images, labels)
        torch.cuda.synchronize()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        loss = train_step(images, labels)
    ```
    To measure a step, use `torch.profiler`, or `torch.cuda.Event(enable_timing=True)` at some steps.

    ## Fix safety
    Unsafe: the fix removes the call. An error of a kernel is reported by a later operation, and a time that the code
    around the loop measures for a single step is no longer that of the GPU. An `if` that only asks for the device and
    synchronizes is deleted with the call. No fix is offered where the call is a part of a larger statement.

    ## When to ignore
    When each step is timed by code that is not seen, or another library or process uses the memory of the tensors.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL211"
    name = "synchronize-in-loop"
    words = ("torch", "synchronize(")
    project_words = (("for ", "while ", "def training_step(", "def train_step(", "def compute_loss("),)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._device_waits import DeviceWaits

        found = list(module.fact(DeviceWaits).all())
        for wait in found:
            notes = [Note.at(module, wait.step.step, "the step begins")]
            if wait.step.calls:
                notes.append(Note.at(module, wait.step.calls[0], "runs at every step by this call"))
            yield self.diagnostic(
                module,
                wait.call,
                f"`{module.code(wait.call.func)}()` makes the host wait for the GPU at every "
                f"{'training step' if wait.step.trains else 'iteration'}",
                label="the GPU is idle until the next kernel is launched",
                notes=tuple(notes),
                fix=_fix(module, wait, [other.call for other in found]),
                cause=Cause((module.tree.index(wait.step.step), module.function_of(wait.call)), "also synchronizes"),
            )


def _fix(module: Module, wait: DeviceWait, others: list[cst.Call]) -> Fix | None:
    statement = edits.statement_of_call(module, wait.call)
    edited = edits.delete_with_block(module, statement) if statement is not None else None
    if edited is None:
        return None
    edited = edits.with_unused_imports(module, edited, wait.call.func, others)
    return Fix("remove the call", edited, Applicability.UNSAFE, "an error of a kernel is reported later")
