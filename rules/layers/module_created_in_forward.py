from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

from ._forward_words import LAYERS, creates_and_runs

if TYPE_CHECKING:
    from torchlint.model.module import Module

_CREATES = re.compile(rf"nn\.(?:modules\.\w+\.)?{LAYERS}\(")
#: The same in a file that imports the classes.
_CREATES_IMPORTED = re.compile(rf"(?<![\w.])(?<!class ){LAYERS}\(")


class ModuleCreatedInForward(Rule):
    """A layer with parameters is created in `forward`, anew at every call.

    ## What it does
    Flags layers of `torch.nn` with parameters (`nn.Linear`, convolutions, norms, embeddings, recurrent layers,
    attention) that a `forward`, or a method that it calls, creates and runs: `nn.Linear(8, 8)(x)`, a local name that is
    called, and an attribute of `self` that is assigned at every call.

    Not reported: layers that are kept after the first call (`if self.projection is None:`), layers that are stored in a
    container or returned, layers without parameters such as `nn.ReLU`, and norms with `affine=False`.

    ## Why it is slow
    Each call allocates the parameters on the CPU, fills them with random numbers there, and with `.to(device)` copies
    them to the GPU. The parameters are not in `model.parameters()`, so that no optimizer trains them, and not in
    `state_dict()`.

    ## Example
    ```python
    def forward(self, x):
        x = nn.Linear(x.shape[-1], 256).to(x.device)(x)
        return self.head(x)
    ```

    ## Use instead
    ```python
    def __init__(self, width):
        super().__init__()
        self.projection = nn.Linear(width, 256)

    def forward(self, x):
        return self.head(self.projection(x))
    ```
    If the width is only known from the first input, use `nn.LazyLinear` in `__init__`. For constant weights, such as
    those of a filter, call `torch.nn.functional.conv2d` with a buffer.

    ## Fix safety
    Advice: which weights the layer is meant to have is not seen. A layer that is created in `__init__` is trained, and
    is saved with the model, so that earlier checkpoints lack its keys.

    ## When to ignore
    When random weights at every call are intended.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    - [torch.nn.LazyLinear](https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyLinear.html)
    """

    code = "TL714"
    name = "module-created-in-forward"
    words = ("torch", ("def forward", "def _forward"))
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a layer may be created in a `forward`."""
        if not super().may_concern(text):
            return False
        if creates_and_runs(text, _CREATES):
            return True
        return "torch.nn import " in text and creates_and_runs(text, _CREATES_IMPORTED)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._created_layers import CreatedLayers

        for layer in module.fact(CreatedLayers).all():
            where = "`forward`" if layer.caller is None else f"`{layer.function.name.value}`"
            yield self.diagnostic(
                module,
                layer.node,
                f"`{layer.name}` is created in {where}, with new parameters at every call",
                label="allocates and initializes its parameters again, and no optimizer trains them",
                notes=() if layer.caller is None else (Note.at(module, layer.caller, "called from there"),),
            )
