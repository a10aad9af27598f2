from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Cause, Default, Diagnostic, Fix, Note, Rule
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


class BackwardUnderAutocast(Rule):
    """The backward pass runs in the autocast region of the forward pass.

    ## What it does
    Flags `loss.backward()`, also of a scaled loss, in a `with torch.autocast(...)` or in a function with autocast as
    its decorator. A region is reported once, at its first backward pass.

    Not reported: regions with `enabled=False`.

    ## Why it is slow
    The documentation does not recommend it: each operation of the backward pass runs in the dtype of its forward
    operation anyway. Under autocast, functions that run Python code in the backward pass, such as hooks, checkpointing
    and custom functions, have their operations cast as well. The cache of cast weights keeps their memory until the
    region ends, which is after the backward pass.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: operations that the backward pass runs in Python may compute in another dtype. The fix moves the backward
    pass and the statements after it out of the region. It is not offered if one of them runs a network. The rule is
    about correct use; there are no measurements for it.

    ## When to ignore
    When custom functions of the backward pass rely on autocast.

    ## References
    - [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
    """

    code = "TL305"
    name = "backward-under-autocast"
    default = Default.OPT_IN
    words = ("autocast", ".backward(")
    since = (1, 6)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.autocasts import Autocasts
        from torchlint.model.training.gradients import Gradients
        from torchlint.model.training.loops import is_backward

        for call in module.fact(Gradients).backwards:
            if not module.is_own(call) or not is_backward(call):
                continue
            region = module.fact(Autocasts).around(call)
            if region is None or region.enabled is False:
                continue
            yield self.diagnostic(
                module,
                call,
                "the backward pass runs under autocast, which is only meant for the forward pass",
                label="its operations have the dtypes of the forward pass anyway",
                notes=(Note.at(module, region.call.node, "autocast"),),
                fix=_fix(module, call),
                cause=Cause(region.call.node, "another backward pass"),
            )


def _fix(module: Module, call: cst.Call) -> Fix | None:
    """Move the statements of the region, from the one with the backward pass on, behind it."""
    import libcst as cst

    from torchlint.model.training.networks import Networks

    row = module.tree.parent(module.tree.statement_of(call))
    block = module.tree.parent(row) if row is not None else None
    region = module.tree.parent(block) if block is not None else None
    if not isinstance(region, cst.With) or not isinstance(block, cst.IndentedBlock) or block.body[0] is row:
        return None
    body = list(block.body)
    moved = body[next(index for index, item in enumerate(body) if item is row) :]
    if not all(isinstance(item, cst.SimpleStatementLine) for item in moved):
        return None
    for item in moved:
        strings = (
            node for node in module.tree.nodes_in(item) if isinstance(node, (cst.SimpleString, cst.FormattedString))
        )
        if any("\n" in module.code(node) or "\r" in module.code(node) for node in strings):
            return None
        if any(map(module.fact(Networks).runs_network, module.tree.calls_in(item))):
            return None
    outer, inner = (_indentation(module, node) for node in (region, moved[0]))
    first, last = module.row(moved[0]), module.row_at(max(module.span(moved[-1])[1] - 1, 0))
    edited = []
    for number in range(first, last + 1):
        text = module.line(number)
        if text.strip() and not text.startswith(inner):
            return None
        start = module.row_start(number)
        if text.strip():
            edited.append(Edit(start, start + len(inner), outer))
    return Fix("move it out of the region", tuple(edited), Applicability.UNSAFE, "hooks may run in another dtype")


def _indentation(module: Module, node: cst.CSTNode) -> str:
    text = module.line(module.row(node))
    return text[: len(text) - len(text.lstrip())]
