from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


class ManualActivation(Rule):
    """An activation is computed by several operations where torch has one function for it.

    ## What it does
    Flags the formulas of SiLU (`x * torch.sigmoid(x)`), GELU (with `erf` or with its approximation by `tanh`), Mish
    (`x * torch.tanh(F.softplus(x))`) and Hardswish (`x * F.relu6(x + 3) / 6`), in whatever way they are written.

    Not reported are functions that only resemble them, such as `x * torch.sigmoid(1.702 * x)`, formulas in several
    statements, code in a `torch.autograd.Function` or under `torch.jit.script`, and files that call `torch.compile`,
    which fuses the operations. Norms are not reported: the usual LayerNorm with `std` has other values than
    `F.layer_norm`, and `F.rms_norm` is slower than the formula on a CPU (0.76x, torch 2.13).

    ## Why it is slow
    Each operation reads and writes a tensor of the size of the activations, and autograd keeps several of them for
    the backward pass. One function reads the input and writes the output once, and keeps the input.

    ## Example
    ```python
    def gelu(x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    ```

    ## Use instead
    ```python
    def gelu(x):
        return torch.nn.functional.gelu(x)
    ```

    ## Fix safety
    Unsafe: rounds differently.

    ## When to ignore
    When results must be reproduced bit for bit.

    ## References
    - [torch.nn.functional.gelu](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html)
    - [torch.nn.functional.silu](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.silu.html)
    """

    code = "TL708"
    name = "manual-activation"
    default = Default.OPT_IN
    words = (
        ("erf(", "erf()", "0447", "oftplus", "elu6", "exp(-", re.compile(r"\*[^\n*]{0,40}igmoid|igmoid[^\n]{0,60}\*")),
    )
    project_words = ("torch",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, code: str) -> bool:
        """Whether a file leaves its operations as they are."""
        return super().may_concern(code) and re.search(r"\btorch\.compile\b", code) is None

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._activations import Activations

        for found in module.fact(Activations).all():
            if _is_scripted(module, found.node):
                continue
            fix = None
            named = edits.name_functional(module, found.node)
            if named is not None and not named[1] and not module.comment_on(found.node):
                better = f"{named[0]}.{found.better}"
                changed = edits.replace(module, found.node, better)
                fix = Fix(f"call `{better}`", changed, Applicability.UNSAFE, "rounds differently")
            yield self.diagnostic(
                module,
                found.node,
                "computes an activation with several operations",
                label=f"`{found.better}` computes it at once",
                fix=fix,
            )


def _is_scripted(module: Module, node: cst.CSTNode) -> bool:
    """Whether a function is compiled by TorchScript, or has a backward pass of its own."""
    function = module.function_of(node)
    if function is None:
        return False
    if any(module.name_of(item.decorator) == "torch.jit.script" for item in function.decorators):
        return True
    owner = module.tree.class_of(function)
    return owner is not None and "torch.autograd.Function" in module.definitions.base_names(owner)
