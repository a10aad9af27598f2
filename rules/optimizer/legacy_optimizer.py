from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_ADAMW = "torch.optim.AdamW(..., fused=True)"
_SGD = "torch.optim.SGD(..., fused=True)"
#: Optimizers with a successor in torch, and what replaces them.
_SUCCESSORS = {
    "transformers.AdamW": _ADAMW,
    "transformers.optimization.AdamW": _ADAMW,
    "pytorch_transformers.AdamW": _ADAMW,
    "pytorch_transformers.optimization.AdamW": _ADAMW,
    "pytorch_pretrained_bert.BertAdam": _ADAMW,
    "pytorch_pretrained_bert.optimization.BertAdam": _ADAMW,
    "pytorch_pretrained_bert.OpenAIAdam": _ADAMW,
    "pytorch_pretrained_bert.optimization_openai.OpenAIAdam": _ADAMW,
    "apex.optimizers.FusedAdam": _ADAMW,
    "apex.optimizers.fused_adam.FusedAdam": _ADAMW,
    "apex.optimizers.FusedSGD": _SGD,
    "apex.optimizers.fused_sgd.FusedSGD": _SGD,
}
#: Libraries whose optimizers update the parameters one by one.
_LOOPS = ("transformers.", "pytorch_transformers.", "pytorch_pretrained_bert.")


class LegacyOptimizer(Rule):
    """An optimizer of another library has a successor in torch.

    ## What it does
    Flags calls of `AdamW` of `transformers`, of `BertAdam` and `OpenAIAdam` of its predecessors, and of `FusedAdam` and
    `FusedSGD` of Apex.

    Not reported: optimizers without a successor, such as `FusedLAMB`; and classes of the program with these names.

    ## Why it is slow
    `AdamW` of `transformers` updates the parameters one by one, with several kernels for each. It is deprecated, and
    version 5 does not contain it. The optimizers of Apex are fused, but must be compiled for each version of torch and
    CUDA; torch has fused kernels since 2.0.

    ## Example
    ```python
    from transformers import AdamW

    optimizer = AdamW(model.parameters(), lr=5e-5)
    ```

    ## Use instead
    ```python
    from torch.optim import AdamW

    optimizer = AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
    ```

    ## Fix safety
    Advice only: the defaults differ. `weight_decay` is 0 in `transformers` and Apex, and 0.01 in `torch.optim.AdamW`;
    `eps` is 1e-6 in `transformers`, and 1e-8 in torch. There are no measurements for this rule.

    ## When to ignore
    When a result must be reproduced exactly.

    ## References
    - [torch.optim.AdamW](https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html)
    - [Apex](https://github.com/NVIDIA/apex)
    """

    code = "TL804"
    name = "legacy-optimizer"
    default = Default.OPT_IN
    events = "Optimizer.step#"
    words = (
        ("AdamW(", "BertAdam(", "OpenAIAdam(", "FusedAdam(", "FusedSGD("),
        ("transformers", "apex", "bert"),
    )
    since = (2, 0)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.syntax.dotted import last_part

        for call in module.own_calls(*_SUCCESSORS):
            library, name = call.name.partition(".")[0], last_part(call.name)
            slow = (
                "updates parameters one by one" if call.name.startswith(_LOOPS) else "must be compiled for each torch"
            )
            yield self.diagnostic(
                module,
                call.node,
                f"`{name}` of `{library}` {slow}, and has a successor in torch",
                label=f"`{_SUCCESSORS[call.name]}` replaces it",
            )
