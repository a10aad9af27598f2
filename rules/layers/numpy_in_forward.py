from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_CONVERTS = re.compile(r"\.numpy\(\)")
_BACK = re.compile(r"from_numpy\(|torch\.(?:as_)?tensor\(|torch\.\w*Tensor\(|torch\.asarray\(")


class NumpyInForward(Rule):
    """A `forward` computes with NumPy on a tensor, and converts the result back.

    ## What it does
    Flags `x.cpu().numpy()` in the `forward` of a network or criterion, or in a function that it calls, if the array, or
    what NumPy computes from it, becomes a tensor again in the same function.

    Not reported: arrays that other libraries, functions of the program or Python loops use, functions of NumPy without
    a counterpart in torch (`np.interp`, `np.random`), arrays that are returned, functions with `numpy` in their names,
    and code under a condition other than `self.training` or a comparison with None.

    ## Why it is slow
    `.cpu()` waits until the GPU has finished all queued work, and copies the tensor. NumPy then computes on the CPU,
    mostly on one core, while the GPU idles, and the result is copied back. The autograd graph ends at the array.

    ## Example
    ```python
    def forward(self, scores):
        order = np.argsort(-scores.detach().cpu().numpy(), axis=1)
        return scores.gather(1, torch.from_numpy(order).to(scores.device))
    ```

    ## Use instead
    ```python
    def forward(self, scores):
        order = scores.detach().argsort(dim=1, descending=True)
        return scores.gather(1, order)
    ```

    ## Fix safety
    Advice: most functions of NumPy have a counterpart of the same name in torch, but some differ in their parameters
    (`axis`, `dim`), in the order of equal items, or in the type of the result.

    ## When to ignore
    When the computation is sequential, so that it runs faster on the CPU, or the network runs on the CPU only.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    """

    code = "TL715"
    name = "numpy-in-forward"
    words = ("def forward", _CONVERTS, _BACK, re.compile(r"import numpy|from numpy"))
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._round_trips import RoundTrips

        for trip in module.fact(RoundTrips).all():
            name = trip.function.name.value
            yield self.diagnostic(
                module,
                trip.node,
                f"`{name}` computes with NumPy on the CPU, and copies the result back",
                label="waits for the GPU and copies the tensor to the host",
                notes=(Note.at(module, trip.back, "becomes a tensor again"),),
            )
