from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._host_reads import HostRead, WaitingStep
    from ._running import Running


#: `int()` of the result of a method, such as `int(mask.sum())`; a pattern that begins with a literal is quick.
_INT = re.compile(r"int\((?<=\bint\()[\w.]{1,60}\.\w{1,20}\(\)\)")


class HostReadInLoop(Rule):
    """`.item()` or `float()` in the training loop waits for the GPU at every step.

    ## What it does
    Flags `x.item()`, `float(x)` and `int(x)` at every step of a training loop, where `x` is the loss or is computed
    from the output of the network, or from a part of the batch that was moved to the GPU, also by a loader of
    `fabric.setup_dataloaders`. Also flags `loss.cpu().numpy()` of the loss itself or of one that is added to it,
    `total += loss.cpu()`, `loss.data[0]` (its `.item()` before torch 0.4), and copies of which only a sum or mean is
    computed: `hits.cpu().sum()`, or `meter.update(loss.cpu())` where the method adds it to a sum and to a count. The
    read may be in the loop, or in a function or `forward` that the step calls. It may also be in a function that is
    itself a training step, such as that of an ignite `Engine` or the `train_step` of a network of mmcv, or in a
    `forward` that records gradients, if its callers are unknown or train it on all data at once. A read at every second
    step (`if step % 2 == 0:`) is flagged too. So is an index that a loop reads for each row and only uses to select
    from a tensor on the GPU: draw all indices at once, `picked = torch.multinomial(weights, 1).squeeze(1)`, and select
    with `features[picked]`.

    Not flagged are

    - reads that run only at some steps (under a step counter, a rank or an exception, or if a helper returns something
      else than `None`, which it does at every n-th step), after the loop, once per epoch, or in validation loops;
    - numbers that control the program: a NaN check, early stopping, the step of an environment;
    - values on the CPU, programs that use no GPU, and steps whose optimizer only has a network or tensors that are
      built in its function and never moved.

    The reads of one training loop are one finding, at the first of them; notes show the others. `# noqa` on one of
    these lines suppresses that read alone.

    ## Why it is slow
    The CPU queues kernels ahead of the GPU, which hides the time of the launches. To read a number, the CPU must wait
    until the GPU has computed it. Then the GPU waits until the CPU has queued more kernels. A step with few, large
    kernels loses little. A step with many small kernels, or with CPU work between two steps, loses more.

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
    Detach what you keep: a sum of losses would otherwise keep the graphs of all steps in memory. Values for a log can
    be read at every hundredth step.

    ## Fix safety
    Unsafe: the sum is computed in the dtype of the tensor, usually float32, instead of in double precision. A list
    contains tensors until the loop ends, and must not be empty then. If an exception or Ctrl-C ends the loop and the
    session continues, as in a notebook, the tensors remain.

    The fix is offered for a local sum that starts as a number, and for a local list, if nothing else reads them at
    every step. They are converted to numbers after the loop. A list gets copies (`clone()`) if something may overwrite
    the tensors in place. No fix is offered

    - if the step would still wait, because one of its reads cannot be moved or is suppressed;
    - if the step reads another number, copies another tensor to the CPU, or is controlled by such a number;
    - if the sum or the list is used after an exception that ended the loop: the loop is in a `try` whose handlers do
      not leave the function, or which use it.

    ## When to ignore
    Ignore it if a step takes so long that one wait does not matter, or if something must react to each loss
    immediately.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "TL201"
    name = "host-read-in-loop"
    words = ((".item()", ".data[0]", "float(", ".numpy()", ".tolist()", ".cpu()", _INT),)
    project_words = (
        ("torch", "transformers"),
        (
            *("backward(", "Trainer(", "def training_step(", "def train_step(", "def forward_train("),
            *("def compute_loss(", "loss.item()"),
            *("loss_scaler(", re.compile(r"class \w*Loss\w*\(")),
        ),
    )
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.iterations import Iterations

        from ._host_reads import HostReads

        for step in module.fact(HostReads).steps:
            fix = self._fix(module, step)
            cause = Cause(module.tree.index(step.node), "also synchronizes", whole=True)
            for read in step.reads:
                often = "second step" if module.fact(Iterations).alternates(read.call, read.step) else "step"
                yield self.diagnostic(
                    module,
                    read.call,
                    f"`{_construct(read.call)}` in the training loop waits for the GPU at every {often}",
                    label="device-to-host sync",
                    notes=(Note.at(module, step.node, "the training step starts"),),
                    fix=fix,
                    cause=cause,
                )

    def _fix(self, module: Module, step: WaitingStep) -> Fix | None:
        """Keep the sums and lists on the device until the loop ends; None if a read, or another wait, would remain."""
        from ._host_reads import HostReads
        from ._running import running

        kept = [running(module, read) for read in step.reads]
        if None in kept or any(module.comment_on(read.call) for read in step.reads):
            return None
        if module.fact(HostReads).waits_otherwise(step):
            return None
        changes: list[Edit] = []
        behind: dict[int, str] = {}  # one insertion for each loop, so that their order is fixed
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
            "keeps tensors in the list until the loop ends"
            if running.is_list
            else "computes the sum in the dtype of the tensor"
            for running in kept
            if running is not None
        ]
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        return Fix(
            f"keep {listed} on the GPU and convert after the loop",
            tuple(dict.fromkeys(changes)),
            Applicability.UNSAFE,
            "; ".join(dict.fromkeys(cautions)),
        )

    def _kept_on_device(self, module: Module, read: HostRead, kept: Running) -> tuple[list[Edit], Edit] | None:
        """The edits of one read, and the insertion after the loop."""
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


def _construct(call: cst.Call | cst.Subscript) -> str:
    """``.item()`` or ``float()``: how a read is named in a message."""
    import libcst as cst

    if isinstance(call, cst.Subscript):
        return ".data[0]"
    if isinstance(call.func, cst.Attribute):
        return f".{call.func.attr.value}()"
    return f"{call.func.value}()" if isinstance(call.func, cst.Name) else "float()"
