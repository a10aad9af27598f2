from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._clearing import UnclearedStep


class UnclearedGradients(Rule):
    """A training loop steps an optimizer but never clears the gradients.

    ## What it does
    Flags `optimizer.step()` in a loop with a backward pass if nothing in the loop clears the gradients of this
    optimizer: no `zero_grad()`, no `p.grad = None`, no helper that may do it. A call of `zero_grad()` before the loop
    is not enough. If several optimizers step, each needs its own call.

    Only optimizers of `torch.optim` that are created in the program are reported. A loop that passes the optimizer to a
    function that torchlint does not see is not reported, nor is `step(closure)`.

    ## Why it is slow
    It is an error, not a matter of speed. `backward()` adds to `.grad`. Without `zero_grad()`, each step uses the sum
    of the gradients of all batches so far, and the training diverges or converges slowly.

    ## Example
    ```python
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: the training takes other steps. The fix inserts `zero_grad()` after the step. It fits gradient accumulation
    as well, where only every n-th batch has a step.

    ## When to ignore
    When the sum over all steps is intended, or when a hook that torchlint does not see clears the gradients.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Zeroing out gradients in PyTorch](https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html)
    """

    code = "TL412"
    name = "uncleared-gradients"
    words = (".step(",)
    project_words = ("torch", ".backward(", ("optim", "Adam", "SGD"))

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._clearing import Clearing

        for found in module.fact(Clearing).all():
            name = module.code(found.optimizer)
            notes = [Note.at(module, found.backward, "each backward pass adds to the gradients")]
            if found.before is not None:
                notes.append(Note.at(module, found.before, "the gradients are cleared once, before the loop"))
            else:
                notes.append(Note(f"nothing in this program clears the gradients of `{name}`"))
            yield self.diagnostic(
                module,
                found.call,
                f"`{name}` steps in a loop that never clears its gradients",
                label="uses the sum of the gradients of all steps so far",
                notes=tuple(notes),
                fix=_fix(module, found),
            )


def _fix(module: Module, found: UnclearedStep) -> Fix | None:
    import libcst as cst

    statement = module.tree.statement_of(found.call)
    if not isinstance(statement, cst.Expr) or statement.value is not found.call:
        return None
    line = f"{module.code(found.optimizer)}.zero_grad()"
    edited = edits.insert_after(module, statement, line)
    return None if edited is None else Fix(f"add `{line}`", edited, Applicability.UNSAFE, "changes every training step")
