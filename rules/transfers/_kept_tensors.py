"""Tensors that a list keeps while a loop runs: whether their memory is overwritten, and what shape they have."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import PARTS, bare, base_of, called_name, prefixes
from torchlint.model.tensors.writes import VIEWS, Writes

#: The modes of ``torch.compile`` whose results are overwritten by the next call.
_GRAPH_MODES = ("reduce-overhead", "max-autotune")


def is_overwritten(module: Module, tensor: cst.BaseExpression, step: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether the memory of ``tensor`` at this place of the loop ``step`` is overwritten later in ``loop``."""
    if any(_replays_graphs(call) for call in module.names.calls_of("torch.compile")):
        return True
    base = _base(tensor)
    if not isinstance(base, (cst.Name, cst.Attribute, cst.Subscript)):
        return False  # computed here: nothing else shares its memory
    bound = _first_bound(module, base, step)
    if bound is None:
        return True  # may be the same tensor at all iterations
    new = range(bound, module.tree.index(tensor))  # what is written here is part of what is kept
    return any(module.tree.index(target) not in new for target, _ in module.fact(Writes).on(base, loop))


def is_number(module: Module, tensor: cst.BaseExpression) -> bool:
    """Whether ``tensor`` is known to have no dimensions: the loss of a library, a mean or a sum of all elements."""
    if isinstance(tensor, cst.Name):
        bound = module.values.reaching.of(tensor)
        return bool(bound) and all(
            item.kind is BindingKind.ASSIGN
            and not item.path
            and item.value is not None
            and is_number(module, item.value)
            for item in bound
        )
    if isinstance(tensor, cst.BinaryOperation):
        return is_number(module, tensor.left) and is_number(module, tensor.right)
    if isinstance(tensor, (cst.Integer, cst.Float)):
        return True
    if not isinstance(tensor, cst.Call):
        return False
    if keyword(tensor, "reduction") is not None:
        return False
    name = module.name_of(tensor.func) or ""
    if called_name(tensor) in ("mean", "sum") and isinstance(tensor.func, cst.Attribute):
        return len(tensor.args) == (1 if name.startswith("torch.") else 0)
    if name.startswith("torch.nn.functional."):
        return name.endswith(("_loss", "cross_entropy", "kl_div", "with_logits"))
    criterion = module.value(tensor.func)
    return (
        criterion.kind is Kind.LOSS
        and criterion.sure
        and criterion.name.startswith("torch.nn.")
        and not any(_is_unreduced(call) for call in criterion.origins)
    )


def _is_unreduced(call: cst.CSTNode) -> bool:
    return isinstance(call, cst.Call) and any(
        item.star or (item.keyword is not None and item.keyword.value in ("reduction", "reduce")) for item in call.args
    )


def _replays_graphs(call: cst.Call) -> bool:
    """Whether the result of a call of ``torch.compile`` returns tensors that its next call overwrites."""
    modes = [item.value for item in call.args if item.keyword is not None and item.keyword.value == "mode"]
    return any(not isinstance(mode, cst.SimpleString) or mode.raw_value in _GRAPH_MODES for mode in modes)


def _base(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x.view(-1).data``: the expression that ``node`` shares its memory with."""
    return bare(node, VIEWS, with_arguments=True)


def _first_bound(module: Module, base: cst.BaseExpression, loop: cst.CSTNode) -> int | None:
    """Where ``loop`` assigns ``base``, or the object that it is a part of, before this place."""
    texts = {module.code(part) for part in (base, *prefixes(base))}
    base = base_of(base, PARTS)
    tree, here = module.tree, module.tree.index(base)
    bound = [tree.index(node) for node, targets in _assigned(module, loop) if not texts.isdisjoint(targets)]
    if isinstance(base, cst.Name):
        bound += [
            item.order
            for item in module.values.reaching.of(base)
            if item.kind in (BindingKind.ASSIGN, BindingKind.FOR, BindingKind.WITH)
        ]
    return min((place for place in bound if tree.index(loop) < place < here), default=None)


def _assigned(module: Module, place: cst.CSTNode) -> Iterator[tuple[cst.Assign | cst.AnnAssign, list[str]]]:
    """The assignments in ``place``, each with its targets."""
    for node in module.tree.nodes_in(place):
        if isinstance(node, cst.Assign):
            yield node, [module.code(item.target) for item in node.targets]
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            yield node, [module.code(node.target)]
