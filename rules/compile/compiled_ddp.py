from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class CompiledDdp(Rule):
    """`torch.compile` gets a `DistributedDataParallel` wrapper instead of the network inside.

    ## What it does
    Flags `torch.compile(model)` and `model.compile()` if `model` is a `DistributedDataParallel`, directly or by an
    assignment before in the same function.

    Not reported: networks that are compiled before they are wrapped, and other wrappers.

    ## Why it is slow
    The documentation of `torch.compile` says that it does not handle wrapper modules such as
    `DistributedDataParallel` well. The compiler traces the Python code of the wrapper together with the network, which
    adds graph breaks and guards. If the network inside is compiled, the wrapper runs as usual, and the graph of the
    network is still split so that gradients are exchanged during the backward pass.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    model = torch.compile(model)
    ```

    ## Use instead
    ```python
    model.compile()
    model = DistributedDataParallel(model, device_ids=[rank])
    ```
    `model.compile()` keeps the names of `state_dict()`. After `torch.compile(model)` they begin with `_orig_mod.`.

    ## Fix safety
    Advice only: names in checkpoints change, and code between the two lines may need the wrapper. It takes several GPUs
    to show the effect, so that there are no measurements.

    ## When to ignore
    When the whole training step is compiled, with compiled autograd.

    ## References
    - [Where to apply torch.compile](https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html)
    - [DDP internal design](https://docs.pytorch.org/docs/stable/notes/ddp.html#torchdynamo-ddpoptimizer)
    """

    code = "TL511"
    name = "compiled-ddp"
    default = Default.OPT_IN
    words = ("compile", "DistributedDataParallel")
    since = (2, 0)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._wrapped import CompiledWrappers

        for found in module.fact(CompiledWrappers).all:
            yield self.diagnostic(
                module,
                found.call,
                "`torch.compile` traces `DistributedDataParallel` together with the network",
                label="the wrapper is compiled as well",
                notes=(Note.at(module, found.wrapper, "the network is wrapped; compile it before"),),
            )
