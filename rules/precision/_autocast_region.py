"""Autocast region: the statements of a training step that autocast should enclose."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import is_step
from torchlint.model.training.steps import TrainingLoop

#: What a check asks that autocast changes.
_FORMAT_QUESTIONS = frozenset({"dtype", "type", "numpy", "is_floating_point"})


def forward_and_loss(module: Module, step: TrainingLoop) -> Sequence[cst.CSTNode] | None:
    """The adjacent statements from the first forward to the loss, in the block that contains the backward pass.

    None where the step is not that simple: several backward passes, other statements in between, a forward
    inside an inner block, or outputs that autocast would leave in a format numpy does not know.
    """
    tree = module.tree
    if len(step.backwards) != 1:
        return None
    path = {item: position for item, position, _ in tree.block_path(step.forward)}
    for block, position, _ in tree.block_path(step.backwards[0]):
        if isinstance(block, cst.SimpleStatementLine):
            if len(block.body) != 1:
                return None
            continue
        if block not in path:
            return None
        return _between(module, block, path[block], position)
    return None


def _between(module: Module, block: cst.CSTNode, first: int, backward: int) -> Sequence[cst.CSTNode] | None:
    body: Sequence[cst.CSTNode] = block.body  # type: ignore[attr-defined]
    if first >= backward:
        return None
    chosen: list[cst.CSTNode] = []
    pending: list[cst.CSTNode] = []
    for statement in body[first:backward]:
        if _is_part_of_loss(module, statement):
            chosen += [*pending, statement]
            pending = []
        elif _is_zero_grad(module, statement) or _only_names_or_checks(module, statement):
            pending.append(statement)
        else:
            break
    rest = body[first + len(chosen) : backward]
    if not chosen or any(_is_part_of_loss(module, statement) for statement in rest):
        return None
    if any(is_step(call) for statement in chosen for call in module.tree.calls_in(statement)):
        return None
    return None if _meets_numpy(module, chosen, block) else chosen


def _is_part_of_loss(module: Module, statement: cst.CSTNode) -> bool:
    if not isinstance(statement, (cst.SimpleStatementLine, cst.If)):
        return False
    return module.fact(Gradients).anything_reaches_backward(statement)


def _is_zero_grad(module: Module, statement: cst.CSTNode) -> bool:
    calls = module.tree.calls_in(statement)
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad" for call in calls
    )


def _only_names_or_checks(module: Module, statement: cst.CSTNode) -> bool:
    """``loss = raw_loss``, or an `assert` that does not ask for a number format."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        return False
    inner = statement.body[0]
    if isinstance(inner, cst.Assert):
        return not any(
            isinstance(node, cst.Attribute) and node.attr.value in _FORMAT_QUESTIONS
            for node in module.tree.nodes_in(inner)
        )
    return isinstance(inner, cst.Assign) and isinstance(inner.value, cst.Name)


def _meets_numpy(module: Module, statements: Sequence[cst.CSTNode], block: cst.CSTNode) -> bool:
    """Whether an output of ``statements`` is turned into an array: numpy has no bfloat16."""
    tree = module.tree
    bound = {
        name.value
        for statement in statements
        for part in tree.nodes_in(statement)
        if isinstance(part, cst.AssignTarget)
        for name in tree.nodes_in(part)
        if isinstance(name, cst.Name)
    }
    for call in tree.calls_in(block):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
            if any(isinstance(part, cst.Name) and part.value in bound for part in tree.nodes_in(call.func)):
                return True
    return False
