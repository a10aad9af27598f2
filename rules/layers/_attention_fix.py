"""The edit that puts ``scaled_dot_product_attention`` in the place of the products and the softmax."""

from __future__ import annotations

import re

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Fix

from ._manual_attention import Attention, AttentionFinder

#: The keys of a product, turned around: what is before it is what the kernel takes.
_TURNED = re.compile(r"(?P<keys>.+?)\.(transpose\((-2, ?-1|-1, ?-2|2, ?3|3, ?2)\)|mT|permute\(0, ?1, ?3, ?2\))")
#: ... and of three dimensions.
_TURNED_BATCH = re.compile(r"(?P<keys>.+?)\.(transpose\((1, ?2|2, ?1|-2, ?-1|-1, ?-2)\)|mT|permute\(0, ?2, ?1\))")
_SCALED = (2, 1)  #: the oldest torch whose kernel takes a scale


def fix_of(module: Module, found: Attention) -> Fix | None:
    """The edit, where products, scaling, softmax and dropout are statements that follow each other."""
    if found.masked or len(found.outputs) != 1 or len(found.steps) > 1 or len(found.drops) > 1:
        return None
    if module.target_torch is not None and module.target_torch < _SCALED:
        return None
    operands = module.fact(AttentionFinder).operands
    scores, output = operands(found.scores), operands(found.outputs[0])
    chain = _chain(module, found)
    if scores is None or output is None or chain is None:
        return None
    batched = "bmm" in module.code(found.scores)[:12]
    keys = (_TURNED_BATCH if batched else _TURNED).fullmatch(module.code(scores[1]))
    scale, dropout = _scale(module, found), _dropout(module, found)
    named = edits.name_functional(module, found.softmax)
    if keys is None or scale is None or dropout is None or named is None or "einsum" in module.code(found.scores):
        return None
    functional, changes = named
    given = [module.code(scores[0]), keys["keys"], module.code(output[1]), *dropout, f"scale={scale}"]
    text = f"{functional}.scaled_dot_product_attention({', '.join(given)})"
    if "\n" in text or any(module.comment_on(item) for item in (*chain, found.outputs[0])):
        return None
    for statement in chain:
        deleted = edits.delete_statement(module, statement)
        if deleted is None:
            return None
        changes += deleted
    return Fix(
        "call `scaled_dot_product_attention`",
        changes + edits.replace(module, found.outputs[0], text),
        Applicability.UNSAFE,
        "rounds differently" + ("; dropout draws other random numbers" if dropout else ""),
    )


def _chain(module: Module, found: Attention) -> list[cst.CSTNode] | None:
    """The statements before the last product, if all of them are for it alone and nothing is in between."""
    tree = module.tree
    last = tree.statement_of(found.outputs[0])
    parts = [found.scores, *found.steps, found.softmax, *found.drops]
    statements = list(dict.fromkeys(tree.statement_of(part) for part in parts))
    statements = sorted((item for item in statements if item is not last), key=tree.index)
    lines = [tree.line_of(item) for item in (*statements, last)]
    first = lines[0]
    if first is None or lines != [(first[0], first[1] + step) for step in range(len(lines))]:
        return None
    names: set[str] = set()
    for item in statements:
        target = item.targets[0].target if isinstance(item, cst.Assign) and len(item.targets) == 1 else None
        if not isinstance(target, cst.Name):
            return None
        names.add(target.value)
    function = module.function_of(last)
    if function is None:
        return None
    for name in names:
        inside = tree.among(tree.names.get(name, ()), function.body)
        if not all(any(tree.within(use, item) for item in (*statements, last)) for use in inside):
            return None
        if any(tree.within(use, last) and not tree.within(use, found.outputs[0]) for use in inside):
            return None
    taken = tree.names_in(found.scores, found.outputs[0])
    weights = tree.names_in(found.outputs[0]) & names
    return statements if not (taken - weights) & names else None


def _scale(module: Module, found: Attention) -> str | None:
    """What the scores are multiplied by."""
    if not found.steps:
        return "1.0"
    step = found.steps[0]
    if not isinstance(step, cst.BinaryOperation):
        return None
    factor = step.left if module.tree.within(found.scores, step.right) else step.right
    if module.value(factor).kind in (Kind.TENSOR, Kind.BATCH, Kind.MODULE):
        return None
    text = module.code(factor)
    if isinstance(step.operator, cst.Multiply):
        return text
    if not isinstance(step.operator, cst.Divide):
        return None
    plain = isinstance(factor, (cst.Name, cst.Attribute, cst.Call, cst.Integer, cst.Float))
    return f"1 / {text}" if plain else f"1 / ({text})"


def _dropout(module: Module, found: Attention) -> list[str] | None:
    """The argument for the dropout of the weights, if there is one; None if its rate is not seen."""
    if not found.drops:
        return []
    layer = found.drops[0].func
    if module.value(layer).name != "torch.nn.Dropout" or not isinstance(layer, cst.Attribute):
        return None
    text = module.code(layer)
    return [f"dropout_p={text}.p if self.training else 0.0"] if text.startswith("self.") else None
