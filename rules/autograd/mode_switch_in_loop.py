from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._mode_switches import RepeatedSwitch


class ModeSwitchInLoop(Rule):
    """A training loop switches a network to the mode that it already has, at every step.

    ## What it does
    Flags `model.train()` and `model.eval()` as a statement of a training loop, if nothing in the loop switches a
    network to the other mode, directly or in the functions that it calls.

    Not reported: loops that evaluate, sample or save now and then in a function that may switch the mode; networks that
    are built in the loop; and switches under a condition.

    ## Why it is slow
    `train()` visits all layers of the network in Python and sets an attribute of each. It takes about a microsecond for
    each layer, which counts if a step is short. On a GPU, it delays the kernels of the next step if the CPU is slower
    than the GPU.

    ## Example
    ```python
    for x, y in loader:
        model.train()
        loss = criterion(model(x), y)
    ```

    ## Use instead
    ```python
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
    ```

    ## Fix safety
    Unsafe: code that torchlint does not see may switch the mode in the loop.

    ## When to ignore
    When a step takes much longer than visiting the layers.

    ## References
    - [torch.nn.Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train)
    """

    code = "TL410"
    name = "mode-switch-in-loop"
    default = Default.OPT_IN
    words = (re.compile(r"\.(?:train|eval)\((?:True|False)?\)"),)
    project_words = ((".backward(", ".step("),)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._mode_switches import RepeatedSwitches

        for found in module.fact(RepeatedSwitches).all:
            text = module.code(found.switch.call)
            yield self.diagnostic(
                module,
                found.switch.call,
                f"`{text}` visits all layers at every step, and nothing in the loop changes the mode",
                label="the mode is the same in each iteration",
                notes=(Note.at(module, found.loop, "the loop"),),
                fix=_fix(module, found, text),
            )


def _fix(module: Module, found: RepeatedSwitch, text: str) -> Fix | None:
    statement = module.tree.statement_of(found.switch.call)
    deleted = edits.delete_statement(module, statement)
    inserted = edits.insert_before(module, found.loop, text)
    if deleted is None or inserted is None:
        return None
    return Fix("switch before the loop", (*inserted, *deleted), Applicability.UNSAFE, "other code may switch the mode")
