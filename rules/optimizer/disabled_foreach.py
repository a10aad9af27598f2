from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call

#: The optimizers with a fused kernel: without `foreach`, `fused=False` turns off their default as well.
_FUSED = tuple(f"torch.optim.{name}" for name in ("Adam", "AdamW", "SGD", "Adagrad"))
_OPTIMIZERS = _FUSED + tuple(
    f"torch.optim.{name}" for name in ("RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")
)
#: Options that the loop over the parameters may be chosen for.
_OTHERS = ("capturable", "differentiable")
#: Tensors that lists of tensors do not support, memory that is short, and programs that compare or reproduce.
_REASONS = re.compile(
    r"DTensor|fully_shard|FullyShardedDataParallel|\bFSDP|device_?mesh|deepspeed|torch_xla|torch_npu|['\"]npu"
    r"|gradient_checkpointing|checkpoint_sequential|utils\.checkpoint|offload|out of memory|OutOfMemory"
    r"|foreach ?= ?True|use_deterministic_algorithms|bitsandbytes|peak_memory|max_memory_allocated"
)


class DisabledForeach(Rule):
    """An optimizer updates its parameters one by one, because of `foreach=False` or `fused=False`.

    ## What it does
    Flags `foreach=False` of an optimizer of `torch.optim`, and `fused=False` without `foreach`, which has the same
    effect, in programs that use CUDA.

    Not reported: calls with `fused=True`, `capturable` or `differentiable`, or with a comment, which may give the
    reason; one of several branches; and programs in whose words there are signs of a reason: sharded parameters
    (FSDP, `DTensor`), gradient checkpointing or offloading, deterministic algorithms, other accelerators.

    The rule is not on by default, because the option is often there for a reason that the code does not show, such as
    the peak memory of a large model.

    ## Why it is slow
    The step launches about a dozen kernels for each parameter, most of which last a few microseconds. If neither option
    is given, torch updates all parameters on CUDA with the kernels of `torch._foreach_*`, each of which works on a list
    of tensors. `fused=False` alone counts as a choice as well, and turns this default off.

    ## Example
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    ```

    ## Use instead
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ```

    ## Fix safety
    Unsafe: lists of intermediate results take as much memory as the parameters, and results may round differently.

    ## When to ignore
    When memory is short during the step, or parameters are tensor subclasses that the kernels do not support.

    ## References
    - [torch.optim: algorithms and their default implementations](https://docs.pytorch.org/docs/stable/optim.html#algorithms)
    """

    code = "TL801"
    name = "disabled-foreach"
    default = Default.OPT_IN
    events = "Optimizer.step#"
    words = (
        ("foreach", "fused"),
        re.compile(r"(?<!\w)(?:foreach|fused)['\"]?\s?[=:]\s?False"),
    )
    project_words = ("torch", "cuda")
    since = (2, 0)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.tensors.devices import Devices
        from torchlint.model.training.alternatives import is_alternative, mentions
        from torchlint.model.training.purpose import Purposes

        for call in module.own_calls(*_OPTIMIZERS):
            name = _disabled_by(call)
            if name is None or any(_may_be_true(call.argument(other)) for other in _OTHERS):
                continue
            argument = call.argument(name)
            value = argument.value
            if value is None or not module.is_own(value) or any(map(module.comment_on, (call.node, value))):
                continue
            if is_alternative(module, call.node) or module.fact(Purposes).is_self_test(call.node):
                continue
            if not module.fact(Devices).uses_cuda or mentions(module, _REASONS):
                continue
            yield self.diagnostic(
                module,
                argument.node or value,
                f"`{name}=False` updates the parameters one by one",
                label="launches kernels for each parameter",
                fix=_fix(module, call, name),
            )


def _disabled_by(call: Call) -> str | None:
    """The argument that turns off updates of lists of parameters."""
    foreach, fused = call.argument("foreach"), call.argument("fused")
    if foreach.literal() == "False" and not _may_be_true(fused):
        return "foreach"
    is_open = foreach.absent or foreach.literal() == "None"
    return "fused" if fused.literal() == "False" and is_open and call.name in _FUSED else None


def _may_be_true(argument: Argument) -> bool:
    return not argument.absent and argument.literal() not in ("False", "None")


def _fix(module: Module, call: Call, name: str) -> Fix | None:
    edited = edits.without_option(module, call, name)
    caution = "lists of intermediate results take memory"
    return None if edited is None else Fix(f"remove `{name}=False`", edited, Applicability.UNSAFE, caution)
