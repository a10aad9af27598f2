from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class HalfModelUnderAutocast(Rule):
    """A network with 16-bit weights is trained under autocast.

    ## What it does
    Flags `model.half()`, `model.bfloat16()` and `model.to(torch.bfloat16)` if an optimizer then gets the parameters of
    the network, and a training step runs it under autocast.

    Not reported: networks for inference; casts in a branch or a `try`; and programs that set `requires_grad`, use
    adapters (LoRA), DeepSpeed, FSDP or Apex, cast to float32 anywhere, or keep a float32 copy of the weights.

    ## Why it is slow
    Autocast expects float32 weights, and casts them once per forward pass to run matrix products in 16 bits. With
    16-bit weights there is nothing to cast, but the operations that autocast runs in float32 (norms, softmax, losses)
    still cast their inputs, and the next layer casts them back. Training also becomes less accurate: the optimizer adds
    its updates to 16-bit weights, in which an update that is less than about 1/512 of a bfloat16 weight, or 1/4096 of a
    float16 weight, is lost. `GradScaler` raises an error for float16 gradients.

    ## Example
    ```python
    model = Net().cuda().half()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    ```
    Autocast with float16 needs a `GradScaler`. To train 16-bit weights on purpose, for example to save memory, remove
    autocast, and use an optimizer that rounds stochastically.

    ## Fix safety
    Advice only: the memory of weights, gradients and optimizer state doubles, and the network learns differently. The
    rule is about correct use; there are no measurements for it.

    ## When to ignore
    When weights in 16 bits are intended, and autocast is needed for layers that must run in float32.

    ## References
    - [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
    """

    code = "TL306"
    name = "half-model-under-autocast"
    words = (re.compile(r"\.(?:half|bfloat16)\(\)|\.to\([^)\n]*torch\.(?:half|float16|bfloat16)"),)
    project_words = ("autocast", ".backward(", ("optim", "Adam", "SGD"))
    since = (1, 6)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._half_weights import HalfWeights

        for found in module.fact(HalfWeights).trained:
            yield self.diagnostic(
                module,
                found.cast,
                f"`{module.code(found.network)}` is trained with 16-bit weights, but autocast expects float32 weights",
                label="the optimizer updates 16-bit weights",
                notes=(
                    Note.at(module, found.optimizer, "the optimizer gets the parameters"),
                    Note.at(module, found.autocast.call.node, "the forward pass runs under autocast"),
                    Note("without the cast, autocast casts the weights in the forward pass"),
                ),
            )
