from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_KEYWORD = "gradient_as_bucket_view"
#: What does not work with gradients that are views, or replaces them.
_REASONS = re.compile(
    r"\.grad\.detach_\(|set_to_none\s*=\s*False|zero_grad\(False|\.grad(?:\.data)?\s*=(?!=)\s*(?!None)|apex|_set_static_graph"
    r"|\.grad\.data\s*=|compiled_autograd"
)


class DdpGradientCopies(Rule):
    """`DistributedDataParallel` copies all gradients to its buffers for communication.

    ## What it does
    Flags `DistributedDataParallel` without `gradient_as_bucket_view`, in programs that train.

    Not reported: calls with unknown arguments; programs that only evaluate; and programs that assign or detach
    gradients in place, or set them to zero instead of `None`.

    The rule is not on by default: it mainly saves memory.

    ## Why it is slow
    The wrapper sums gradients in buckets, each of which is one message. Without the option, each gradient is stored
    twice: as `grad` of its parameter, and in a bucket. It is copied there and back at every step. With the option,
    `grad` is a view of the bucket, which saves both copies, and as much memory as the gradients take.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    ```

    ## Fix safety
    Unsafe: `detach_()` of a gradient raises an error, and code that keeps a gradient sees the next one in its place.
    The memory is saved after the first step. It takes several GPUs to show the effect, so that there are no
    measurements.

    ## When to ignore
    When the program keeps gradients from one step to the next.

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL816"
    name = "ddp-gradient-copies"
    default = Default.OPT_IN
    words = ("DistributedDataParallel",)
    project_words = (".backward(",)
    since = (1, 8)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.alternatives import mentions
        from torchlint.model.training.gradients import Gradients

        trains = any(module.tree.root_of(call) in module.related for call in module.fact(Gradients).backwards)
        if not trains or mentions(module, _REASONS):
            return
        for call in module.own_calls(_WRAPPER):
            argument = call.argument(_KEYWORD)
            if not argument.absent:
                continue
            added = edits.set_argument(module, call.node, _KEYWORD, argument, "True")
            caution = "code that keeps or detaches gradients may fail"
            yield self.diagnostic(
                module,
                call.node,
                "`DistributedDataParallel` stores each gradient twice, and copies it at every step",
                label=f"`{_KEYWORD}` defaults to False",
                fix=None if added is None else Fix(f"add `{_KEYWORD}=True`", added, Applicability.UNSAFE, caution),
            )
