from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler")
#: Attributes that only an enabled scaler has, and methods that read them.
_STATE = re.compile(r"get_(?:growth|backoff)_\w+|_(?:scale|growth|backoff|init|per_optimizer|found_inf|check)\w*")
#: What the condition of a branch contains if the scaler is created for some dtypes only.
_BY_FORMAT = re.compile(r"16|half|dtype|precision", re.IGNORECASE)


class Bfloat16GradScaler(Rule):
    """`GradScaler` is unnecessary with bfloat16 autocast.

    ## What it does
    Flags an enabled `GradScaler` that scales the loss, in a file whose autocast always uses bfloat16. It is not flagged
    if it is not known whether the scaler or autocast is enabled, or which dtype autocast uses. A scaler that is created
    for some dtypes only is not flagged either.

    ## Why it is slow
    The scaler exists for float16, in which small gradients become zero. bfloat16 has the range of float32 and does not
    need it. At each step the scaler still reads and divides all gradients. Unless the optimizer is fused,
    `scaler.step(optimizer)` also waits for the GPU to check whether a gradient is infinite, so the CPU cannot queue
    kernels ahead.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    ```
    Alternatively, keep the calls and disable the scaler, as the fix does. With `enabled=False`, `scale(loss)` returns
    the loss itself, `step(optimizer)` calls `optimizer.step()`, and the other methods do nothing.

    ## Fix safety
    Unsafe: a step with infinite or NaN gradients is no longer skipped. `state_dict()` of the scaler is empty, also in
    checkpoints. Gradients close to the smallest float32 may round differently. A disabled scaler has no growth factor,
    backoff factor or growth interval. No fix is offered if the program reads one of them, or an entry of
    `state_dict()`.

    ## When to ignore
    Ignore it if the scaler skips steps with infinite gradients on purpose.

    ## References
    - [Automatic mixed precision: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    code = "TL304"
    name = "bfloat16-grad-scaler"
    words = ("GradScaler",)
    project_words = ("autocast", ("bfloat16", "cpu"), ".scale(")
    since = (1, 10)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.autocasts import Autocasts

        entered = [found for found in module.fact(Autocasts).all if found.enabled is not False]
        if not entered or any(found.dtype != "torch.bfloat16" for found in entered):
            return
        if module.fact(Autocasts).others or any(module.methods("half")):
            return
        if not any(module.methods("scale")):
            return
        switches = {found.enabled for found in entered}
        for scaler in module.own_calls(*_SCALERS):
            if not _is_on(module, scaler, switches) or _depends_on_format(module, scaler):
                continue
            state = _state_read(module, scaler)
            changed = None
            if state is None:
                changed = edits.set_argument(module, scaler.node, "enabled", scaler.argument("enabled"), "False")
            yield self.diagnostic(
                module,
                scaler.node,
                "`GradScaler` is unnecessary with bfloat16 autocast",
                label="reads and divides all gradients at every step",
                notes=(
                    Note.at(module, entered[0].call.node, "autocast uses bfloat16"),
                    *(
                        []
                        if state is None
                        else [Note.at(module, state, "no fix: a disabled `GradScaler` lacks the state that is read")]
                    ),
                ),
                fix=Fix(
                    "pass `enabled=False`",
                    changed,
                    Applicability.UNSAFE,
                    "no longer skips steps with infinite or NaN gradients",
                )
                if changed
                else None,
            )


def _is_on(module: Module, scaler: Call, switches: set[bool | str]) -> bool:
    """Whether the scaler is enabled, or enabled whenever autocast is."""
    enabled = scaler.argument("enabled")
    if enabled.value is None:
        return enabled.absent
    return enabled.literal() == "True" or switches == {module.code(enabled.value)}


def _depends_on_format(module: Module, scaler: Call) -> bool:
    """Whether the scaler is created under a condition on the dtype."""
    import libcst as cst

    return any(
        isinstance(above, (cst.If, cst.IfExp)) and _BY_FORMAT.search(module.code(above.test)) is not None
        for above in module.tree.ancestors(scaler.node)
    )


def _state_read(module: Module, scaler: Call) -> cst.CSTNode | None:
    """Where the program reads state that only an enabled scaler has."""
    import libcst as cst

    def is_state_dict(node: cst.BaseExpression | None) -> bool:
        return (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "state_dict"
            and scaler.node in module.value(node.func.value).origins
        )

    for attribute in module.tree.attributes:
        if _STATE.fullmatch(attribute.attr.value) and scaler.node in module.value(attribute.value).origins:
            return attribute
    if not any(is_state_dict(call.node) for call in module.methods("state_dict")):
        return None
    for node in module.tree.of_kind(cst.Subscript):
        if is_state_dict(node.value):
            return node
        if isinstance(node.value, cst.Name) and any(
            not item.path and is_state_dict(item.value) for item in module.values.reaching.of(node.value)
        ):
            return node
    return None
