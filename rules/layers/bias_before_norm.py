from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Default, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: Weights of others are loaded by names of parameters, which a fix would change.
_PRETRAINED = re.compile(
    r"model_zoo|load_url|load_state_dict_from_url|from_pretrained|PreTrainedModel|build_model_with_cfg|hf_hub|"
    r"default_cfg|register_model"
)


class BiasBeforeNorm(Rule):
    """A convolution or `nn.Linear` has a bias that the batch norm after it subtracts again.

    ## What it does
    Flags `nn.Conv1d`, `nn.Conv2d`, `nn.Conv3d`, their transposed forms and `nn.Linear` without `bias=False`

    - directly before a batch norm of the same number of channels in an `nn.Sequential` or in a list for one;
    - that a class creates and calls once, in `self.norm(self.conv(x))`, or with a name between both calls.

    Not reported are layers with other uses, norms that are created under a condition or passed in, and files that load
    pretrained weights, whose names of parameters are fixed.

    ## Why it is slow
    In training mode, a batch norm subtracts the mean of each channel, and with it any constant added to that channel.
    The bias has no effect on the output, and its gradient is 0 except for rounding. To compute it, the backward pass
    adds up the gradient of the whole output, and the optimizer updates the bias. The cost is small next to that of the
    convolution: torchlint claims no speed-up.

    ## Example
    ```python
    block = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU())
    ```

    ## Use instead
    ```python
    block = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU())
    ```

    ## Fix safety
    Unsafe: `load_state_dict` raises an error for checkpoints that were saved with the bias, and other layers get other
    initial weights, as fewer random numbers are drawn. No fix is offered in files that read `.bias`, which is None
    afterwards.

    ## When to ignore
    When checkpoints exist, or when the batch norm is in evaluation mode during training: its bias is then trained.

    ## References
    - [Performance Tuning Guide: disable bias for convolutions directly followed by a batch norm](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL704"
    name = "bias-before-norm"
    default = Default.OPT_IN
    words = (("torch", "import *"), "BatchNorm", ("Conv", "Linear("))

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether the networks of a file are not pretrained ones."""
        return super().may_concern(code) and _PRETRAINED.search(code) is None

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._cancelled_biases import CancelledBiases

        for found in module.fact(CancelledBiases).all():
            node = found.layer.node
            bias = found.layer.argument("bias")
            is_read = ".bias" in module.own_text
            changed = None if is_read else edits.set_argument(module, node, "bias", bias, "False")
            caution = "checkpoints with this bias cannot be loaded, and initial weights change"
            yield self.diagnostic(
                module,
                node,
                "bias is subtracted again by the batch norm after the layer",
                label=f"`{module.code(found.norm.func)}` follows",
                fix=None if changed is None else Fix("add `bias=False`", changed, Applicability.UNSAFE, caution),
                cause=Cause(module.tree.class_of(module.function_of(node) or node), "another such bias"),
            )
