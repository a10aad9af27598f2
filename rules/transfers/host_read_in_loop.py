from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._host_reads import HostRead, WaitingStep
    from ._running import Running


class HostReadInLoop(Rule):
    """A number is read off the GPU at every training step.

    ## What it does
    Flags `x.item()`, `float(x)` and `int(x)` at every step of a training loop, where `x` is the loss or is computed
    from what the network gave, and `loss.cpu().numpy()` of the loss itself: there, in a function or the `forward`
    of an object that the step calls, or in a function that is itself a training step, such as the one an ignite
    `Engine` is given. Left alone are reads at some steps only (under a step counter, a rank or an exception), after
    the loop, once per epoch, and in validation loops; numbers that decide how the program goes on (a NaN guard,
    early stopping, an environment's step); values on the host; and files that use no GPU. The reads of one training
    loop are one finding, at the first of them; notes show the others. A `# noqa` on one of these lines exempts that
    read alone.

    ## Why it is slow
    The host queues kernels ahead of the GPU, and so hides the time that launching them takes. To read a number it must
    wait until the GPU has computed it; then the GPU waits until the host has queued more. A step whose kernels are
    few and large hardly suffers; one with many small kernels, or with work on the host between two steps, does.

    ## Example
    ```python
    total = 0.0
    for images, labels in loader:
        loss = train_step(images, labels)
        total += loss.item()
    print(total / len(loader))
    ```

    ## Use instead
    ```python
    total = 0.0
    for images, labels in loader:
        loss = train_step(images, labels)
        total += loss.detach()
    total = float(total)
    print(total / len(loader))
    ```
    Detach what you keep: a sum of losses would otherwise keep the graphs of all steps alive. What is logged can be read
    at every hundredth step.

    ## Fix safety
    Unsafe: the sum is added up in the number format of the tensor, most often float32, instead of in double precision,
    and a list contains tensors until the loop is done and must not be empty then. If an exception or Ctrl-C ends the
    loop and the session goes on, as in a notebook, tensors remain. The fix is offered for a local sum that starts as a
    number and for a local list, where nothing else reads them at every step; they are turned into numbers behind the
    loop. A list gets copies (`clone()`) where something may overwrite the tensors in place. No fix is offered

    - if the step would still wait: if one of its reads cannot be moved or is suppressed, if it reads another number or
      copies another tensor of the step to the host, or if such a number decides how it goes on;
    - if the sum or the list is used after an exception that ended the loop: around the loop is a `try` whose handlers
      do not leave the function, or which use it.

    ## When to ignore
    When a step takes so long that one wait does not matter, or when something must react to each loss at once.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "TL201"
    name = "host-read-in-loop"
    words = (("torch", "transformers"), (".item()", "float(", ".numpy()", ".tolist()"))
    project_words = (("backward(", "def training_step(", "def compute_loss("),)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._host_reads import HostReads

        for step in module.fact(HostReads).steps:
            fix = self._fix(module, step)
            cause = Cause(module.tree.index(step.node), "also read", whole=True)
            for read in step.reads:
                yield self.diagnostic(
                    module,
                    read.call,
                    "the host waits for the GPU at every training step",
                    label="reads a number off the GPU",
                    notes=(Note.at(module, step.node, "the step begins"),),
                    fix=fix,
                    cause=cause,
                )

    def _fix(self, module: Module, step: WaitingStep) -> Fix | None:
        """Keep what the reads add up or collect on the device; None if any read, or another wait, would remain."""
        from ._host_reads import HostReads
        from ._running import running

        kept = [running(module, read) for read in step.reads]
        if None in kept or any(module.comment_on(read.call) for read in step.reads):
            return None
        if module.fact(HostReads).waits_otherwise(step):
            return None
        changes: list[Edit] = []
        behind: dict[int, str] = {}  # one insertion for each loop, so that their order is beyond doubt
        for read, total in zip(step.reads, kept, strict=True):
            assert total is not None
            made = self._kept_on_device(module, read, total)
            if made is None:
                return None
            edits_of_read, after = made
            changes += edits_of_read
            behind[after.start] = after.content + behind.get(after.start, "")
        changes += [Edit(start, start, content) for start, content in behind.items()]
        names = [f"`{running.name}`" for running in kept if running is not None]
        cautions = [
            "the list holds tensors meanwhile" if running.is_list else "adds up in the number format of the tensor"
            for running in kept
            if running is not None
        ]
        return Fix(
            f"keep {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} on the device while the loop runs",
            tuple(dict.fromkeys(changes)),
            Applicability.UNSAFE,
            "; ".join(dict.fromkeys(cautions)),
        )

    def _kept_on_device(self, module: Module, read: HostRead, kept: Running) -> tuple[list[Edit], Edit] | None:
        """The edits of one read, and the insertion behind the loop."""
        from ._kept_tensors import is_number, is_overwritten

        tensor = module.code(read.tensor) if kept.kind == "int" else f"{module.code(read.tensor)}.detach()"
        if kept.is_list:
            named = edits.name_module(module, "torch", kept.loop)
            if named is None:
                return None
            torch, imported = named
            numbers = "tolist()" if is_number(module, read.tensor) else "flatten().tolist()"
            after = edits.insert_after(module, kept.loop, f"{kept.name} = {torch}.stack({kept.name}).{numbers}")
            tensor += ".clone()" if is_overwritten(module, read.tensor, read.step, kept.loop) else ""
        else:
            imported = ()
            after = edits.insert_after(module, kept.loop, f"{kept.name} = {kept.kind}({kept.name})")
        if after is None:
            return None
        changes = [*imported, *edits.replace(module, read.call, tensor)]
        for use in kept.reads:
            changes += edits.replace(module, use, f"{kept.kind}({kept.name})")
        return changes, after[0]
