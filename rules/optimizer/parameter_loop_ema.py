from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Rule

from ._average_sketch import may_average
from ._average_words import averages_in_loop

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._averages import AverageLoop

#: The note where `torch._foreach_lerp_` does not exist yet.
_OLD_TORCH = (
    "no fix: the torch of this project is older than 2.0; use `torch._foreach_mul_(averages, decay)` and "
    "`torch._foreach_add_(averages, parameters, alpha=1 - decay)`"
)
_WITH_LERP = (2, 0)


class ParameterLoopEma(Rule):
    """A moving average of the parameters is updated one parameter at a time.

    ## What it does
    Flags loops over parameters that blend each parameter into its average, such as
    `e.mul_(decay).add_(p, alpha=1 - decay)`, also with the deprecated `add_(1 - decay, p)`, `e.lerp_(p, 1 - decay)` or
    `e.copy_(decay * e + (1 - decay) * p)`, itself or by a function that it calls for each parameter, such as
    `ema.update(name, p.data)`, or by a lambda: in a training step, in a function that one calls, also in another file,
    in a `forward` that records gradients and whose callers are not seen, and in a function that is named for it
    (`ema`, `soft_update`), or whose class (`RunningAverage`) or parameter is (`tau`, `decay`), where a step out of
    sight may run it: nothing is seen to call it, or a method such as `update_teacher` that nothing is seen to call.
    Target networks of reinforcement learning and momentum encoders are such averages as well.

    Not reported: averages that are updated less often than at every second step of the optimizer by default, such as
    those in a constructor or behind the loop of an epoch, optimizers, loops that copy parameters, and loops that run
    where `torch._foreach_lerp_` is missing.

    ## Why it is slow
    Each parameter takes one to four kernels of a few microseconds. A network has hundreds of parameters, so that the
    update is limited by the time to launch kernels: the CPU needs longer than the GPU. `torch._foreach_lerp_` updates
    many parameters with one kernel; torch's own `AveragedModel` uses it with `get_ema_multi_avg_fn`.

    ## Example
    ```python
    with torch.no_grad():
        for p, e in zip(model.parameters(), ema.parameters()):
            e.mul_(decay).add_(p, alpha=1 - decay)
    ```

    ## Use instead
    ```python
    with torch.no_grad():
        torch._foreach_lerp_(
            list(ema.parameters()),
            list(model.parameters()),
            1 - decay,
        )
    ```
    Or let torch keep the average:
    `AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))` of `torch.optim.swa_utils`, with
    `averaged.update_parameters(model)` at every step.

    ## Fix safety
    Unsafe: the result is rounded differently. The parameters of both networks must have the same number, and each pair
    the same type and device, else `torch._foreach_lerp_` raises. `.data` that is assigned to is written in place. A
    fix is offered for a loop over two iterables in one `zip` whose only statement is the blend; not for those over a
    `state_dict()` or buffers, which may contain integers, and not if the project supports a torch before 2.0, where
    `torch._foreach_mul_` and `torch._foreach_add_` do the same.

    ## When to ignore
    When there are only a few parameters, or when the average is on another device.

    ## References
    - [torch.optim.swa_utils.get_ema_multi_avg_fn](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
    - [Multi-tensor (foreach) implementations](https://docs.pytorch.org/docs/stable/optim.html)
    """

    code = "TL803"
    name = "parameter-loop-ema"
    words = ("for ", ("param", "state_dict", "weights", "shadow"))
    project_words = ("torch",)
    since = (1, 8)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a loop over parameters may update an average of them."""
        return super().may_concern(text) and averages_in_loop(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop over parameters may average them."""
        return may_average(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._averages import Averages

        if not module.uses_torch:
            return
        for found in module.fact(Averages).all():
            notes = [] if found.step is None else [Note.at(module, found.step.step, "runs at every training step")]
            is_old = module.target_torch is not None and module.target_torch < _WITH_LERP
            if is_old:
                notes.append(Note(_OLD_TORCH))
            yield self.diagnostic(
                module,
                found.loop,
                "the moving average is updated one parameter at a time",
                label="launches kernels for each parameter",
                notes=tuple(notes),
                fix=None if is_old else _fix(module, found),
            )


def _fix(module: Module, found: AverageLoop) -> Fix | None:
    import libcst as cst

    loop, blend = found.loop, found.blend
    if blend.weight is None or not _is_all(loop, blend.statement):
        return None
    iterables = _zipped(module, loop)
    start, end = module.span(loop)[0], module.span(blend.statement)[1]
    if iterables is None or "#" in module.text[start:end]:
        return None
    lists = []
    for tensor in (blend.average, blend.new):
        used = module.tree.names_in(tensor) & set(iterables)
        if len(used) != 1:
            return None
        name = used.pop()
        text, over = module.code(tensor), iterables[name]
        lists.append(f"list({over})" if text == name else f"[{text} for {name} in {over}]")
    if any(isinstance(node, cst.Name) and node.value in iterables for node in module.tree.nodes_in(blend.weight)):
        return None
    named = edits.name_module(module, "torch", loop)
    if named is None:
        return None
    torch, imported = named
    rows = [f"{torch}._foreach_lerp_(", *(f"    {text}," for text in (*lists, module.code(blend.weight))), ")"]
    indent = edits.indentation_at(module, module.line_start(start))
    text = f"{edits.newline_of(module)}{indent}".join(rows)
    return Fix(
        "update all parameters at once",
        (*imported, Edit(start, end, text)),
        Applicability.UNSAFE,
        "rounds differently; raises if the networks differ in the number, type or device of their parameters",
    )


def _is_all(loop: cst.For, statement: cst.CSTNode) -> bool:
    """Whether ``statement`` is all that the loop does."""
    import libcst as cst

    row = loop.body.body[0] if isinstance(loop.body, cst.IndentedBlock) and len(loop.body.body) == 1 else None
    alone = isinstance(row, cst.SimpleStatementLine) and len(row.body) == 1 and row.body[0] is statement
    return alone and loop.orelse is None


def _zipped(module: Module, loop: cst.For) -> dict[str, str] | None:
    """By name what a loop iterates over, of ``for p, e in zip(model.parameters(), ema.parameters())``."""
    import libcst as cst

    target, over = loop.target, loop.iter
    if not isinstance(target, cst.Tuple) or not isinstance(over, cst.Call):
        return None
    given = [item for item in over.args if item.keyword is None]
    names = [item.value for item in target.elements]
    if module.name_of(over.func) != "builtins.zip" or len(given) != 2 or any(item.star for item in over.args):
        return None
    if len(names) != 2 or not all(isinstance(name, cst.Name) for name in names):
        return None
    texts = [module.code(item.value) for item in given]
    if any("state_dict" in text or "buffers" in text for text in texts):
        return None
    return {name.value: text for name, text in zip(names, texts, strict=True) if isinstance(name, cst.Name)}
