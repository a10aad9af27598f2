from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.training.function_words import measuring
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: Each variable, the value that turns it on, and what it then does.
_VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": ("1", "makes the host wait for every CUDA kernel"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("1", "allocates and frees GPU memory by the driver for every tensor"),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "checks every collective operation on all processes"),
}
_LABELS = {
    "CUDA_LAUNCH_BLOCKING": "no kernel is launched while another one runs",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "each `cudaMalloc` and `cudaFree` waits for the GPU",
    "TORCH_DISTRIBUTED_DEBUG": "for finding collectives that do not match",
}
_SET = re.compile(rf"environ\[\s*[\"'](?:{'|'.join(_VARIABLES)})")
#: Functions that set a variable on purpose.
_PURPOSES = measuring("debug", "determin", "reproduc", "test", "trace", "check", "diagnos", "sanit")
#: Functions that seed random numbers, and what shows that they also ask for deterministic kernels.
_SEEDS = re.compile(r"seed|random", re.IGNORECASE)
#: What scripts call that measure kernels, where the setting gives each its own time, and what those call that train.
_MEASURES = re.compile(r"cudaProfiler|cudart\(\)|nvtx|timeit|enable_timing|torch\.profiler")
_TRAINS = ".backward("
_DETERMINISTIC = ("CUBLAS_WORKSPACE_CONFIG", "use_deterministic_algorithms", "set_deterministic")


class LaunchBlocking(Rule):
    """An environment variable for debugging CUDA is set in the code.

    ## What it does
    Flags `os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`, `os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"` and
    `os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"`.

    Not reported: settings under a condition or in an `except` block, variables that the file sets back or removes,
    functions that are named for debugging or determinism, scripts that measure kernels and do not train, and tests.
    `os.environ.setdefault` is not reported, because a user can override it.

    ## Why it is slow
    With `CUDA_LAUNCH_BLOCKING`, the host waits until each kernel has finished before it continues. The time to launch
    a kernel, and all work of Python in between, is then added to the time of the GPU. Without caching, each tensor is
    allocated by `cudaMalloc` and released by `cudaFree`, which waits for the GPU. With
    `TORCH_DISTRIBUTED_DEBUG=DETAIL`, the processes compare every collective before it runs.

    ## Example
    ```python
    import os

    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

    import torch
    ```

    ## Use instead
    ```python
    import torch
    ```
    To find an operation that fails, set the variable for one run: `CUDA_LAUNCH_BLOCKING=1 python train.py`.

    ## Fix safety
    Unsafe: the fix deletes the statement. The error of a kernel is then reported by a later operation. No fix is
    offered where a comment would be lost.

    ## When to ignore
    While you search for the operation that fails.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [CUDA environment variables](https://docs.pytorch.org/docs/stable/cuda_environment_variables.html)
    """

    code = "TL605"
    name = "launch-blocking"
    words = (tuple(_VARIABLES), _SET)
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.program.switches import Switches

        if not module.uses_torch:
            return
        for switch in module.fact(Switches).variables(*_VARIABLES):
            value, effect = _VARIABLES[switch.name]
            if switch.value != value or switch.conditional or not module.is_own(switch.node):
                continue
            measures = _MEASURES.search(module.own_text) is not None and _TRAINS not in module.own_text
            if measures or _is_intended(module, switch.node):
                continue
            deleted = edits.delete_statement(module, switch.node)
            fix = None
            if deleted is not None and _sets_nothing_else(switch.node):
                caution = "an error of a kernel is reported later"
                fix = Fix("remove this setting", deleted, Applicability.UNSAFE, caution)
            yield self.diagnostic(
                module, switch.node, f"`{switch.name}={value}` {effect}", label=_LABELS[switch.name], fix=fix
            )


def _is_intended(module: Module, node: cst.CSTNode) -> bool:
    """Whether a function is named for what needs the setting."""
    import libcst as cst

    names = [above.name.value for above in module.tree.ancestors(node) if isinstance(above, cst.FunctionDef)]
    if any(_PURPOSES.search(name) for name in names):
        return True
    asks = any(word in module.own_text for word in _DETERMINISTIC)
    return asks and any(_SEEDS.search(name) for name in names)


def _sets_nothing_else(statement: cst.CSTNode) -> bool:
    import libcst as cst

    return isinstance(statement, cst.Assign) and len(statement.targets) == 1
