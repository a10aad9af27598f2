from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_SWITCHES = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
_TRAINERS = ("pytorch_lightning.Trainer", "lightning.Trainer", "lightning.pytorch.Trainer")
#: Functions that are there to look for errors.
_LOOKS = re.compile(r"debug|anomal|nan|check|test|diagnos", re.IGNORECASE)
#: Words of conditions under which a program looks for errors.
_LOOKS_IF = re.compile(r"debug|anomal|nan\b|nan_|finite|diagnos", re.IGNORECASE)


class AnomalyDetection(Rule):
    """Anomaly detection of autograd is left on in training.

    ## What it does
    Flags `torch.autograd.set_detect_anomaly(True)`, `with torch.autograd.detect_anomaly():` and Lightning's
    `Trainer(detect_anomaly=True)`, in programs that run a backward pass or call `torch.autograd.grad`.

    Not reported: calls that depend on a condition or an option, unless all training around it does so as well
    (`if epoch >= 0:`), functions that are named for debugging, files that turn the detection off again, and tests; also
    scripts that infer by their name or load weights, and call nothing that trains.

    ## Why it is slow
    Each operation of the forward pass stores the Python stack that called it. In the backward pass, each gradient is
    searched for NaN, and the host waits for the answer: one synchronization for each operation.

    ## Example
    ```python
    torch.autograd.set_detect_anomaly(True)
    for images, labels in loader:
        train_step(images, labels)
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        train_step(images, labels)
    ```
    Turn it on by an option, for the steps that fail. `set_detect_anomaly(True, check_nan=False)` stores the stacks, but
    does not search for NaN.

    ## Fix safety
    Unsafe: a NaN in a gradient no longer ends the program, and an error in a backward pass no longer names the forward
    operation. Where the detection is a `with` block of its own, no fix is offered for `detect_anomaly()`;
    `set_detect_anomaly(True)` becomes `set_detect_anomaly(False)` there.

    ## When to ignore
    While you search for the operation that gives NaN.

    ## References
    - [Anomaly detection](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
    - [Performance tuning guide: disable debugging APIs](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL901"
    name = "anomaly-detection"
    words = (("detect_anomaly(", "detect_anomaly=True", "detect_anomaly = True"),)
    project_words = (("backward(", "Trainer", "autograd.grad(", "autograd import grad", "jacobian("),)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        if any(_mode(call) == "False" for call in module.calls(*_SWITCHES)):
            return
        for call in module.own_calls(*_SWITCHES, *_CONTEXTS, *_TRAINERS):
            if not _turns_on(call) or not _is_always_on(module, call):
                continue
            yield self.diagnostic(
                module,
                call.node,
                "anomaly detection checks every gradient for NaN on the host",
                label="stores a stack for each operation, and waits for each gradient",
                fix=_fix(module, call),
            )


def _mode(call: Call) -> str | None:
    """What ``set_detect_anomaly`` is given, as text; None if it is not a literal."""
    argument = call.argument("mode")
    if argument.absent and call.node.args and call.node.args[0].keyword is None:
        value = call.node.args[0].value
        return getattr(value, "value", None) if getattr(value, "value", None) in ("True", "False") else None
    return argument.literal()


def _turns_on(call: Call) -> bool:
    if call.name in _TRAINERS:
        return call.argument("detect_anomaly").literal() == "True"
    if call.argument("check_nan").literal() == "False":
        return False
    return call.name in _CONTEXTS or _mode(call) == "True"


def _is_always_on(module: Module, call: Call) -> bool:
    """Whether the call depends on no condition, and is in no function for debugging."""
    from torchlint.model.program.switches import Switches
    from torchlint.model.training.gradients import Gradients
    from torchlint.model.training.inference_scripts import InferenceScripts

    if module.fact(Switches).conditional(call.node) and not _is_where_training_is(module, call.node):
        return False
    function = module.function_of(call.node)
    if function is not None and _LOOKS.search(function.name.value):
        return False
    if call.name in _TRAINERS:
        return True
    return bool(module.fact(Gradients).backwards) and not module.fact(InferenceScripts).calls_no_training(module.root)


def _is_where_training_is(module: Module, node: cst.CSTNode) -> bool:
    """Whether the conditions around ``node`` decide about the training, and not only about the detection.

    ``if epoch >= 0:`` around ``with detect_anomaly(): train(...)``: nothing else in the function trains.
    """
    import libcst as cst

    from torchlint.model.syntax.climbing import climb
    from torchlint.model.syntax.nodes import HANDLERS
    from torchlint.model.training.gradients import Gradients

    trains = module.fact(Gradients).trains
    is_in_branch = False
    for above, child in climb(module.tree, node):
        if isinstance(above, (*HANDLERS, cst.MatchCase)):
            return False
        if isinstance(above, cst.If) and child is not above.test:
            if _LOOKS_IF.search(module.code(above.test)) or not trains(child):
                return False
            other = above.orelse if child is above.body else above.body
            if other is not None and trains(other):
                return False
            is_in_branch = True
        if isinstance(above, cst.FunctionDef):
            break
        if is_in_branch and isinstance(above, (cst.IndentedBlock, cst.Module)):
            others = (statement for statement in above.body if statement is not child)
            if any(trains(other) for other in others if not isinstance(other, (cst.FunctionDef, cst.ClassDef))):
                return False
    return True


def _fix(module: Module, call: Call) -> Fix | None:
    caution = "a NaN in a gradient no longer ends the program"
    if call.name in _TRAINERS:
        edited = edits.without_option(module, call, "detect_anomaly")
        return None if edited is None else Fix("remove the argument", edited, Applicability.UNSAFE, caution)
    statement = edits.statement_of_call(module, call.node)
    if statement is not None:
        edited = edits.delete_statement(module, statement)
        return None if edited is None else Fix("remove the call", edited, Applicability.UNSAFE, caution)
    if call.name in _SWITCHES and call.node.args:
        edited = edits.replace(module, call.node.args[0].value, "False")
        return None if edited is None else Fix("turn it off", edited, Applicability.UNSAFE, caution)
    return None
