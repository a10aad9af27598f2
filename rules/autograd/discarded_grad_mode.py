from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_MODES = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad")
_NAMES = ("no_grad", "inference_mode", "enable_grad")
#: What may be a statement, and is not a decorator.
_STATEMENTS = tuple(
    re.compile(rf"{mode}(?<!@torch\.{mode})(?<!@{mode})[ \t]*(?:\([^()\n]{{0,40}}\))?[ \t]*(?:[;\r\n#]|\Z)")
    for mode in _NAMES
)


class DiscardedGradMode(Rule):
    """`torch.no_grad()` as a statement of its own does nothing.

    ## What it does
    Flags `torch.no_grad()`, `torch.inference_mode()` and `torch.enable_grad()` as a bare statement, with or without
    parentheses. They take effect only in a `with` statement or as a decorator.

    `torch.set_grad_enabled(False)` is not reported: it takes effect as a statement as well.

    ## Why it is slow
    The code that follows records an autograd graph although it is meant not to: each operation stores its inputs for
    a backward pass that never comes. Forward passes take longer, and need more memory.

    ## Example
    ```python
    model.eval()
    torch.no_grad()
    for images, labels in loader:
        hits += (model(images).argmax(1) == labels).sum()
    ```

    ## Use instead
    ```python
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            hits += (model(images).argmax(1) == labels).sum()
    ```

    ## Fix safety
    Unsafe: other code may use gradients of what is computed. The fix makes a decorator of a statement directly above a
    function. In a function, it wraps the rest of the block. At the top level of a file that runs no backward pass, it
    calls `torch.set_grad_enabled(False)`. No fix is offered where the rest of the block trains or has a `yield` or
    `await`, or where the statement is the last of its block.

    ## When to ignore
    Never: the statement has no effect. Delete it if gradients are wanted.

    ## References
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [torch.set_grad_enabled](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.set_grad_enabled.html)
    """

    code = "TL404"
    name = "discarded-grad-mode"
    words = ("torch", _NAMES, _STATEMENTS)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for mode, name in _statements(module):
            text = module.code(mode)
            enables = name == "torch.enable_grad"
            yield self.diagnostic(
                module,
                mode,
                f"`{text}` as a statement does not {'enable' if enables else 'disable'} gradients",
                label="takes effect in a `with` statement or as a decorator",
                fix=_fix(module, mode, enables),
            )


def _statements(module: Module) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The modes that are made and dropped, with their canonical names."""
    import libcst as cst

    for statement in module.tree.inside(module.root, cst.Expr):
        made = statement.value
        named = module.callee(made)
        if isinstance(named, (cst.Name, cst.Attribute)):
            name = module.name_of(named)
            if name in _MODES:
                yield made, name


def _fix(module: Module, mode: cst.BaseExpression, enables: bool) -> Fix | None:
    import libcst as cst

    statement = module.tree.parent(mode)
    row = module.tree.parent(statement) if statement is not None else None
    if not isinstance(row, cst.SimpleStatementLine) or len(row.body) != 1:
        return None
    block = module.tree.parent(row)
    if not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return None
    rest = block.body[next(i for i, item in enumerate(block.body) if item is row) + 1 :]
    if not rest:
        return None
    caution = "enables gradients" if enables else "removes the gradients of what is computed"
    if isinstance(rest[0], cst.FunctionDef) and isinstance(mode, cst.Call) and _is_above(module, mode, rest[0]):
        start = module.span(mode)[0]
        return Fix("make it a decorator", (Edit(start, start, "@"),), Applicability.UNSAFE, caution)
    if module.function_of(mode) is None and isinstance(block, cst.Module):
        edited = None if enables else _switch(module, mode)
        message = "call `set_grad_enabled(False)`"
    else:
        edited = _wrap(module, mode, rest)
        message = "wrap the rest of the block"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)


def _is_above(module: Module, mode: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    """Whether the statement is on the row directly above a function and its decorators."""
    first = function.decorators[0] if function.decorators else function
    return module.row(first) == module.row_at(module.span(mode)[1] - 1) + 1


def _switch(module: Module, mode: cst.BaseExpression) -> edits.Edits | None:
    """Turn the gradients off for good, in a program that needs none."""
    import libcst as cst

    from torchlint.model.training.gradients import Gradients

    named = module.callee(mode)
    if not isinstance(named, cst.Attribute) or module.fact(Gradients).backwards:
        return None
    return edits.replace(module, mode, f"{module.code(named.value)}.set_grad_enabled(False)")


def _wrap(module: Module, mode: cst.BaseExpression, rest: Sequence[cst.CSTNode]) -> edits.Edits | None:
    """Put what follows the statement in its block under a ``with``."""
    import libcst as cst

    from torchlint.model.syntax.suspension import suspension_in

    if any(suspension_in(module.tree, item) is not None or _trains(module, item) for item in rest):
        return None
    if not any(module.tree.calls_in(item) for item in rest):
        return None  # what it was meant for is elsewhere
    statement = module.tree.parent(mode)
    deleted = None if statement is None else edits.delete_statement(module, statement)
    header = f"{module.code(mode)}{'' if isinstance(mode, cst.Call) else '()'}"
    wrapped = edits.wrap_in_with(module, rest, header)
    return None if deleted is None or wrapped is None else (*deleted, *wrapped)


def _trains(module: Module, node: cst.CSTNode) -> bool:
    """Whether code, or a function that it calls, runs a backward pass or steps an optimizer."""
    import libcst as cst

    from torchlint.model.training.loops import is_backward, is_step

    calls = module.tree.calls_in(node)
    called = {
        definition
        for call in calls
        for definition in module.definitions.called(call, module.values)
        if isinstance(definition, cst.FunctionDef)
    }
    inside = [other for function in called for other in module.tree.calls_in(function.body)]
    return any(is_backward(call) or is_step(call) for call in (*calls, *inside))
