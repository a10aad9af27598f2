from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

#: The optimizers with a fused kernel for CUDA, and the oldest torch with it.
_SINCE = {"torch.optim.Adam": (2, 0), "torch.optim.AdamW": (2, 0), "torch.optim.SGD": (2, 3)}
#: Options that choose another implementation, or that the fused kernel does not support.
_OTHERS = ("fused", "foreach", "capturable", "differentiable")
#: So few tensors take few kernels.
_FEW = 2
#: The arguments of SGD before `momentum`: the parameters and `lr`.
_BEFORE_MOMENTUM = 2
#: Tensors that the kernel does not support, and libraries that replace the optimizer.
_REASONS = re.compile(
    r"sparse ?= ?True|complex(?:64|128)|cfloat|deepspeed|bitsandbytes|DTensor|fully_shard|FullyShardedDataParallel"
    r"|\bFSDP|torch_xla|torch_npu|torch_directml|ipex|higher\.innerloop|\.step\(closure|optimizer_to\("
)


class UnfusedOptimizer(Rule):
    """Adam, AdamW or SGD updates parameters on a GPU without its fused kernel.

    ## What it does
    Flags `torch.optim.Adam`, `AdamW`, and `SGD` with momentum, without `fused`, if the program trains on a CUDA device.

    Not reported: optimizers of one or two tensors; calls with `foreach`, `capturable` or `differentiable`, and unknown
    arguments; and programs in whose words there are sparse or complex parameters, sharded parameters (FSDP), DeepSpeed,
    or other accelerators.

    The rule is not on by default, because the step of the optimizer is often a small part of a training step, and the
    fused kernel is not faster on every GPU.

    ## Why it is slow
    By default, torch updates lists of parameters with the kernels of `torch._foreach_*`: about a dozen for a step of
    Adam, each of which reads and writes all parameters or their state once. The fused kernel reads the parameters,
    the gradients and the state once, computes the update, and writes it.

    ## Example
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ```

    ## Use instead
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    ```

    ## Fix safety
    Unsafe: results round differently. `fused=True` raises an error for complex parameters and sparse gradients, and
    before torch 2.4 for parameters that are on the CPU when the optimizer is created.

    ## When to ignore
    When the step of the optimizer takes little of the time.

    ## References
    - [torch.optim: algorithms and their default implementations](https://docs.pytorch.org/docs/stable/optim.html#algorithms)
    """

    code = "TL802"
    name = "unfused-optimizer"
    default = Default.OPT_IN
    events = "Optimizer.step#"
    words = (("Adam", "SGD"),)
    project_words = ("torch", ("cuda", "accelerator"), (".backward(", ".fit("))
    since = (2, 0)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.tensors.devices import Devices
        from torchlint.model.training.alternatives import mentions
        from torchlint.model.training.gradients import Gradients
        from torchlint.model.training.purpose import Purposes

        if not module.fact(Devices).uses_cuda or not module.fact(Gradients).backwards or mentions(module, _REASONS):
            return
        for call in module.own_calls(*_SINCE):
            if not _has_kernel(module, call) or _has_few(call) or module.fact(Purposes).is_self_test(call.node):
                continue
            added = edits.set_argument(module, call.node, "fused", call.argument("fused"), "True")
            caution = "rounds differently; needs parameters of floating-point numbers on a supported device"
            yield self.diagnostic(
                module,
                call.node,
                f"`{call.name.rpartition('.')[2]}` updates the parameters with several kernels instead of a fused one",
                label="`fused` is not given",
                notes=(Note.at(module, module.fact(Gradients).backwards[0], "the gradients are computed"),),
                fix=None if added is None else Fix("add `fused=True`", added, Applicability.UNSAFE, caution),
            )


def _has_few(call: Call) -> bool:
    """Whether the optimizer gets only one or two tensors: ``Adam([latent])``."""
    import libcst as cst

    first = call.node.args[0] if call.node.args else None
    given = first.value if first is not None and first.keyword is None else None
    if not isinstance(given, (cst.List, cst.Tuple)) or len(given.elements) > _FEW:
        return False
    return all(
        isinstance(item, cst.Element) and isinstance(item.value, (cst.Name, cst.Attribute)) for item in given.elements
    )


def _has_kernel(module: Module, call: Call) -> bool:
    """Whether the fused kernel can replace the kernels of the call."""
    if module.target_torch is not None and module.target_torch < _SINCE[call.name]:
        return False
    if not all(call.argument(name).absent for name in _OTHERS):
        return False
    if call.name != "torch.optim.SGD":
        return True
    momentum = call.argument("momentum")
    by_position = len([item for item in call.node.args if item.keyword is None]) > _BEFORE_MOMENTUM
    return by_position or (momentum.value is not None and momentum.literal() not in ("0", "0.0"))
