from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Diagnostic, Note, Rule

from ._test_sketch import may_test_tensor
from ._test_words import tests_tensor

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class TensorTruthTest(Rule):
    """Python control flow depends on a GPU tensor at every training step.

    ## What it does
    Flags `if`, `while`, `assert`, conditional expressions and conditions of comprehensions whose test is a tensor that
    the network, the loss or the gradients of a training step gave: `if torch.isnan(loss):`, `if mask.sum() > 0:`,
    `assert (x >= 0).all()`, `if n:` after `n = mask.sum()`, `if norm > 10:` for the norm that `clip_grad_norm_`
    returned, `[i for i in range(len(labels)) if labels.data[i] != -1]`; or an item of such a tensor:
    `for label in torch.unique(predicted):`, then `if label == 255:`. So is what `any(...)` and `all(...)` of Python ask
    for each item: `if any(p.grad.isnan().any() for p in parameters):`, and what follows the bounds of an index that the
    loop counts: `while i > 0 and x[i].sum() == 0:`. The test may be in the training loop, in the
    `step` of an optimizer, in a function that clips gradients and whose callers are unknown, or in a function or a
    `forward` that the step calls, also in another file. In a `forward` that records gradients, its inputs count as
    well, and so do buffers of the network or its parts and what is computed from them: `if not self.is_initialized:`,
    also with `.item()`, `if torch.any(self.cluster_size < 2):`. Its callers may be unknown, as those in the `Trainer`
    of transformers, or train it on all data at once, in one step per epoch. A `train_step` of a network counts as a
    step, and so does a method for its loss (`calculate_loss`) of which no call is seen. A test at every second step
    (`if step % 2 == 0:`) is flagged too.

    Not reported: tests at fewer steps, in evaluation mode, in validation loops and in exception handlers; tests of
    shapes, of `None` and of numbers that were already copied to the host (`loss.item() > limit`, see
    `host-read-in-loop`); tests behind another condition (`debug and torch.isnan(x).any()`); tests that only end a loop
    within the step, such as a search (`if loss < limit: break`); tensors that may be on the CPU.

    ## Why it is slow
    Python needs the value to choose a branch. The host waits until the GPU has computed it, and queues no kernels
    meanwhile; then the GPU waits for the host. Inside compiled code the test also ends the graph.

    ## Example
    ```python
    for images, labels in loader:
        loss = criterion(model(images), labels)
        if loss > 10:
            loss = loss * (10 / loss.detach())
        loss.backward()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss = loss * (10 / loss.detach()).clamp(max=1)
        loss.backward()
    ```
    `torch.where`, `clamp` and `masked_fill` choose on the GPU. A sum over an empty mask is 0: divide it by
    `mask.sum().clamp(min=1)` instead of asking whether the mask is empty. Test for NaN at every hundredth step, or with
    `torch._assert_async`, or let `GradScaler` skip the step.

    ## Fix safety
    Advice: what takes the place of a branch depends on what it computes.

    ## When to ignore
    When the branch saves more time than the wait costs, or the program must stop at once. When the CPU takes longer to
    launch the kernels of a step than the GPU to run them, as with small networks: the GPU waits in any case.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [torch.where](https://docs.pytorch.org/docs/stable/generated/torch.where.html)
    """

    code = "TL203"
    name = "tensor-truth-test"
    words = ("torch",)
    project_words = (
        (
            *("backward(", "Trainer(", "self.training", "loss_scaler(", "def training_step(", "def compute_loss("),
            re.compile(r"class \w*Loss\w*\(|def (?:train_step|forward_train|\w*loss)\("),
        ),
    )
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether a row tests something that may be a tensor."""
        return super().may_concern(code) and tests_tensor(code)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a test may ask for the value of a tensor."""
        return may_test_tensor(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.iterations import Iterations

        from ._truth_tests import TruthTests

        for test in module.fact(TruthTests).all():
            notes = [Note.at(module, test.step.step, "the step begins")]
            if test.step.calls:
                notes.append(Note.at(module, test.step.calls[0], "runs at every step by this call"))
            often = "every second" if module.fact(Iterations).alternates(test.statement, test.step.step) else "every"
            yield self.diagnostic(
                module,
                test.node,
                f"the test of a GPU tensor waits for the GPU at {often} training step",
                label="Python needs the value to go on",
                notes=tuple(notes),
                cause=Cause((module.tree.index(test.step.step), module.function_of(test.node)), "also tested"),
            )
