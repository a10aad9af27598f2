from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class RetainedGraph(Rule):
    """`retain_graph=True` keeps the graph of a step in memory although nothing uses it again.

    ## What it does
    Flags `loss.backward(retain_graph=True)` in a loop where each iteration has this backward pass alone, and everything
    that the loss is computed from is computed in the same iteration.

    Not reported are loops over losses, steps with a second backward pass or a call of `torch.autograd.grad`, also in a
    function that the step calls, losses that are summed over iterations, states that one iteration hands to the next,
    tensors from before the loop, networks that store tensors in `forward`, and networks that are not seen.

    ## Why it is slow
    Without the option, the backward pass frees the activations as it goes. With it they stay until the loss and the
    outputs get new values in the next iteration, after its forward pass: two graphs are in memory at once.

    ## Example
    ```python
    loss = criterion(model(images), labels)
    loss.backward(retain_graph=True)
    ```

    ## Use instead
    ```python
    loss = criterion(model(images), labels)
    loss.backward()
    ```

    ## Fix safety
    Unsafe: a second backward pass through the same graph, somewhere out of sight, raises an error.

    ## When to ignore
    When code out of sight goes back through the graph again, such as a hook.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    code = "TL406"
    name = "retained-graph"
    words = (("retain_graph=True", "retain_graph = True", "backward(None, True"),)
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._retained import RetainedGraphs

        for found in module.fact(RetainedGraphs).all():
            removed = edits.remove_argument(module, found.call, found.argument)
            caution = "a second backward pass through the same graph raises an error"
            yield self.diagnostic(
                module,
                found.call,
                "`retain_graph=True` keeps the graph until the next forward pass is done",
                label="the only backward pass of an iteration",
                notes=(Note.at(module, found.step, "all of the graph is computed in one iteration"),),
                fix=None
                if removed is None
                else Fix("remove `retain_graph=True`", removed, Applicability.UNSAFE, caution),
            )
