from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._freezing_words import chooses_parameters

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._untrained import UntrainedNetwork

#: An optimizer; not the module that many libraries call `optimization`, nor the library optimum.
_OPTIMIZER = re.compile(r"optim(?!ization\b|um)")


class UntrainedParameterGradients(Rule):
    """The backward pass computes gradients of parameters that no optimizer updates.

    ## What it does
    Flags

    - the only optimizer of a program, if it is given the parameters of one layer (`model.fc.parameters()`), and the
      training step runs the whole network;
    - a network that takes part in the loss of a training step, or in that of an image or latent code that the optimizer
      changes, if the program passes its parameters to no optimizer: a teacher, a target network whose weights follow
      those of another one, a perceptual loss, a frozen backbone.

    Not reported: networks that are frozen by the program or in their class (for the first kind, programs that set
    `requires_grad` of parameters anywhere); networks that run under `torch.no_grad()` or whose output is detached;
    networks with a class that is not in the program, except those of torchvision, timm and transformers; networks that
    are built from others; and networks that are passed to code that is not in the program.

    ## Why it is slow
    For each layer that has parameters with `requires_grad=True`, the backward pass computes the gradient of the
    weights, and passes the gradient of the input on to the layer before. For a layer with frozen parameters, and no
    trained layer before it, both are omitted, and the forward pass keeps no activations. The gradients also take as
    much memory as the weights. No `zero_grad` of an optimizer resets them, so that they add up at every step.

    ## Example
    ```python
    model = torchvision.models.resnet50(weights="DEFAULT").cuda()
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.01)
    for images, labels in loader:
        loss = F.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model = torchvision.models.resnet50(weights="DEFAULT").cuda()
    model.requires_grad_(False)
    model.fc.requires_grad_(True)
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.01)
    for images, labels in loader:
        loss = F.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    If no gradient has to pass through the network at all, as through a teacher, run it under `torch.no_grad()`.

    ## Fix safety
    Unsafe: the gradients of the frozen parameters are `None`. The total norm that `clip_grad_norm_(model.parameters())`
    computes becomes smaller. No fix is offered in programs with `DistributedDataParallel`, in which parameters must be
    frozen before the network is wrapped.

    ## When to ignore
    When something else reads the gradients, or an optimizer updates the parameters later.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    - [torch.nn.Module.requires_grad_](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_)
    """

    code = "TL408"
    name = "untrained-parameter-gradients"
    words = (("Adam", "SGD", _OPTIMIZER),)
    project_words = (".backward(",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether a network may be built or trained there, and nothing chooses parameters out of sight."""
        return super().may_concern(code) and not chooses_parameters(code)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._untrained import Untrained

        for found in module.fact(Untrained).networks:
            network = module.code(found.network)
            if found.trained is None:
                message = f"the backward pass computes gradients of `{network}`, which no optimizer updates"
                label = "parameters require gradients"
            else:
                layer = module.code(found.trained)
                message = f"the backward pass computes gradients of all of `{network}`, but only `{layer}` is trained"
                label = "the other parameters require gradients as well"
            yield self.diagnostic(
                module,
                found.place,
                message,
                label=label,
                notes=(
                    Note.at(module, found.forward, "the forward pass"),
                    Note.at(module, found.backward, "the backward pass"),
                    Note("nothing in this program freezes them"),
                ),
                fix=_fix(module, found),
            )


def _fix(module: Module, found: UntrainedNetwork) -> Fix | None:
    if "DistributedDataParallel" in module.text:
        return None
    network = module.code(found.network)
    statement = module.tree.statement_of(found.place)
    frozen = f"{network}.requires_grad_(False)"
    if found.trained is None:
        edited = edits.insert_after(module, statement, frozen)
        message = f"add `{frozen}`"
    else:
        edited = edits.insert_before(module, statement, frozen, f"{module.code(found.trained)}.requires_grad_(True)")
        message = f"freeze `{network}` except for `{module.code(found.trained)}`"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, "frozen parameters have no gradients")
