from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.training.function_words import measuring
from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call
    from torchlint.model.training.loops import Loop

_SCHEDULED = ("torch.profiler.profile", "torch.profiler.profiler.profile")
_SWITCHED = ("torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx")
#: Functions whose purpose is profiling.
_PROFILES = measuring("prof", "trace", "nvtx", "flops", "debug")
#: So few iterations are a sample.
_FEW_ITERATIONS = re.compile(r"range\(\s*\d{1,3}\s*\)|.*\bislice\(.*", re.DOTALL)


class ProfilerLeftOn(Rule):
    """A profiler without a schedule records the whole training run.

    ## What it does
    Flags `with torch.profiler.profile(...)` without a schedule, `with torch.autograd.profiler.profile(...)` and
    `emit_nvtx()` around a loop that trains or iterates over a loader, or inside of it at each iteration. Not flagged
    are profilers that depend on an option, functions named for profiling, programs annotated with `nvtx`, loops with
    few iterations and loops with a `break`.

    ## Why it is slow
    The profiler records every operation with its times, and more with `record_shapes`, `with_stack` or
    `profile_memory`. It keeps all records until the end of the block and sorts them there. This slows down each step,
    and memory grows with the number of steps.

    ## Example
    ```python
    with torch.profiler.profile(with_stack=True) as prof:
        for images, labels in loader:
            train_step(images, labels)
    ```

    ## Use instead
    ```python
    steps = torch.profiler.schedule(wait=10, warmup=2, active=5, repeat=1)
    with torch.profiler.profile(schedule=steps, with_stack=True) as prof:
        for images, labels in loader:
            train_step(images, labels)
            prof.step()
    ```
    Five steps in the middle show as much as all of them. Without `prof.step()`, a schedule never advances.

    ## Fix safety
    Advice only: torchlint cannot decide which steps to profile, or whether the profiler can be removed.

    ## When to ignore
    Ignore it if the purpose of the script is profiling.

    ## References
    - [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html)
    - [PyTorch profiler recipe](https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html)
    """

    code = "TL902"
    name = "profiler-left-on"
    default = Default.INFO
    words = ("torch", ("profiler.profile", "import profile", ", profile", "emit_nvtx"))
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        if module.imports("nvtx"):
            return  # the program is annotated for a profiler
        for call in module.own_calls(*_SCHEDULED, *_SWITCHED):
            block = _block_of(module, call)
            loop = None if block is None or not _always_on(call) else _recorded_loop(module, block)
            function = module.function_of(call.node)
            if loop is None or (function is not None and _PROFILES.search(function.name.value)):
                continue
            yield self.diagnostic(
                module,
                call.node,
                f"`{call.name}` records the whole training run",
                label="no `schedule`" if call.name in _SCHEDULED else "always enabled",
                notes=(Note.at(module, loop.node, "records every iteration of the loop"),),
            )


def _block_of(module: Module, call: Call) -> cst.With | None:
    """The `with` block of the profiler, if it depends on no condition."""
    import libcst as cst

    from torchlint.model.program.switches import Switches

    item = module.tree.parent(call.node)
    block = module.tree.parent(item) if isinstance(item, cst.WithItem) else None
    return block if isinstance(block, cst.With) and not module.fact(Switches).conditional(block) else None


def _always_on(call: Call) -> bool:
    """Whether the call passes neither a schedule nor a switch."""
    argument = call.argument("schedule" if call.name in _SCHEDULED else "enabled")
    return argument.absent or argument.literal() in ("None", "True")


def _recorded_loop(module: Module, block: cst.With) -> Loop | None:
    """The loop over the data that is recorded: inside the block, in a function called there, or around it."""
    from torchlint.model.training.loops import Loops

    around = module.fact(Loops).hot(block)
    if around is not None and _is_long(module, around) and not _header(module, around).startswith("range("):
        return around
    places = [block.body]
    for call in module.tree.calls_in(block.body):
        places += [item.body for item in module.definitions.called(call, module.values)]
    for loop in module.fact(Loops).all():
        if any(module.tree.within(loop.node, place) for place in places) and _is_long(module, loop):
            return loop
    return None


def _is_long(module: Module, loop: Loop) -> bool:
    """Whether the loop trains or iterates over a loader, and runs to its end."""
    from torchlint.model.training.gradients import Gradients
    from torchlint.model.training.loops import LoopKind

    if loop.kind is LoopKind.OTHER or not (loop.loaders or module.fact(Gradients).trains(loop.node.body)):
        return False
    return "break" not in module.code(loop.node) and _FEW_ITERATIONS.fullmatch(_header(module, loop)) is None


def _header(module: Module, loop: Loop) -> str:
    """The code of the iterable; empty for `while`."""
    import libcst as cst

    return module.code(loop.node.iter) if isinstance(loop.node, cst.For) else ""
