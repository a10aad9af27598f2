"""The edit that collects tensors in a list, and joins them once behind the loop."""

from __future__ import annotations

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.rule import Applicability, Edit, Fix

from ._growing import Growth


def fix_of(module: Module, found: Growth) -> Fix | None:
    """``x = []`` before the loop, ``x.append(y)`` in it, ``x = torch.cat(x)`` after it."""
    start = _start(module, found)
    appended = _append(module, found)
    if start is None or appended is None or found.loop.node.orelse is not None:
        return None
    rest = [module.code(item) for item in found.call.args[1:]]
    if any("\n" in text for text in rest):
        return None
    joined = f"{found.name} = {module.code(found.call.func)}({', '.join([found.name, *rest])})"
    behind = edits.insert_after(module, found.loop.node, joined)
    if behind is None or _leaves_early(module, found):
        return None
    return Fix(
        f"collect in a list, and call `{module.code(found.call.func)}` once behind the loop",
        (*start, *appended, *behind),
        Applicability.UNSAFE,
        "it raises if the loop runs no iteration, and the list contains the tensors themselves: "
        "they must not be changed in place",
    )


def _start(module: Module, found: Growth) -> tuple[Edit, ...] | None:
    """The start becomes an empty list, in the block of the loop."""
    if found.start is None or "." in found.name:
        return None
    statement = module.tree.statement_of(found.start)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    row = module.tree.parent(statement)
    if row is None or module.tree.parent(row) is not module.tree.parent(found.loop.node):
        return None
    text = module.code(found.start)
    if not (text in ("None", "[]") or text.endswith("([])") or _is_size_zero(found.start)):
        return None
    between = [
        use
        for use in module.tree.names.get(found.name, ())
        if module.tree.index(statement) < module.tree.index(use) < module.tree.index(found.loop.node)
        and not module.tree.within(use, statement)
    ]
    if between or module.comment_on(statement):
        return None
    return edits.replace(module, found.start, "[]")


def _is_size_zero(start: cst.BaseExpression) -> bool:
    """``torch.empty(0)``: of one dimension, which ``cat`` leaves out."""
    return (
        isinstance(start, cst.Call)
        and len(start.args) >= 1
        and isinstance(start.args[0].value, cst.Integer)
        and start.args[0].value.value == "0"
        and all(item.keyword is not None for item in start.args[1:])
    )


def _append(module: Module, found: Growth) -> tuple[Edit, ...] | None:
    """The statement, or the ``if`` around it and the first value, becomes an ``append``."""
    added = [module.code(item) for item in found.items]
    text = f"{found.name}.append({added[0]})" if len(added) == 1 else f"{found.name} += [{', '.join(added)}]"
    if "\n" in text or "#" in text:
        return None
    if found.first is None:
        if module.comment_on(found.statement) or found.statement.value is not found.call:
            return None
        return edits.replace(module, found.statement, text)
    branch = found.first
    other = branch.orelse
    if not isinstance(other, cst.Else) or isinstance(module.tree.parent(branch), cst.If):
        return None
    values = []
    for block in (branch.body, other.body):
        if not isinstance(block, cst.IndentedBlock) or len(block.body) != 1:
            return None
        row = block.body[0]
        if (
            not isinstance(row, cst.SimpleStatementLine)
            or len(row.body) != 1
            or not isinstance(row.body[0], cst.Assign)
        ):
            return None
        values.append(row.body[0].value)
    plain = next((value for value in values if value is not found.call), None)
    if plain is None or [module.code(plain)] != added:
        return None
    start, end = module.span(branch)
    if "#" in module.text[start:end]:
        return None
    return (Edit(start, end, text),)


def _leaves_early(module: Module, found: Growth) -> bool:
    """Whether the loop may be left by ``return``, with the variable a list."""
    return any(isinstance(node, (cst.Return, cst.Yield)) for node in module.tree.nodes_in(found.loop.node.body))
