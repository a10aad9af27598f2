"""Tensors that a list keeps while a loop runs: whether their memory is overwritten, and what shape they have."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import changes_in_place, keyword
from torchlint.model.syntax.dotted import PARTS, bare, base_of, called_name, prefixes
from torchlint.model.syntax.parameters import parameters_of

#: Methods and attributes whose result shares the memory of the tensor.
_VIEWS = frozenset({"view", "view_as", "reshape", "squeeze", "unsqueeze", "flatten", "detach", "contiguous"})
#: Methods that are named like those that write to a tensor, but do not.
_HARMLESS = frozenset({"requires_grad_", "share_memory_", "retain_grad_"})
#: The modes of ``torch.compile`` whose results are overwritten by the next call.
_GRAPH_MODES = ("reduce-overhead", "max-autotune")
#: The maximum number of calls that a tensor is followed into.
_DEPTH = 2


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
    names = _aliases(module, {module.code(base)}, loop)
    new = range(bound, module.tree.index(tensor))  # what is written here is part of what is kept
    return _is_written(module, names, loop, new, _DEPTH)


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
    return bare(node, _VIEWS, with_arguments=True)


def _first_bound(module: Module, base: cst.BaseExpression, loop: cst.CSTNode) -> int | None:
    """Where ``loop`` assigns ``base``, or the object that it is a part of, before this place."""
    texts = {module.code(part) for part in (base, *prefixes(base))}
    base = base_of(base, PARTS)
    tree, here = module.tree, module.tree.index(base)
    bound = [tree.index(node) for node, targets, _ in _assigned(module, loop) if not texts.isdisjoint(targets)]
    if isinstance(base, cst.Name):
        bound += [
            item.order
            for item in module.values.reaching.of(base)
            if item.kind in (BindingKind.ASSIGN, BindingKind.FOR, BindingKind.WITH)
        ]
    return min((place for place in bound if tree.index(loop) < place < here), default=None)


def _assigned(
    module: Module, place: cst.CSTNode
) -> Iterator[tuple[cst.Assign | cst.AnnAssign, list[str], cst.BaseExpression]]:
    """The assignments in ``place``: each with its targets and the assigned expression."""
    for node in module.tree.nodes_in(place):
        if isinstance(node, cst.Assign):
            yield node, [module.code(item.target) for item in node.targets], node.value
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            yield node, [module.code(node.target)], node.value


def _aliases(module: Module, names: set[str], place: cst.CSTNode) -> set[str]:
    """``names`` and those to which ``place`` assigns the same tensor: ``total = loss``."""
    same = [{*targets, module.code(_base(value))} for _, targets, value in _assigned(module, place)]
    found = set(names)
    while more := {name for group in same if not found.isdisjoint(group) for name in group} - found:
        found |= more
    return found


def _is_written(module: Module, names: set[str], place: cst.CSTNode, new: range, depth: int) -> bool:
    """Whether ``place`` writes to a tensor of one of these names, other than where its indices are in ``new``."""
    tree = module.tree

    def is_meant(node: cst.BaseExpression) -> bool:
        while isinstance(node, cst.Subscript) and module.code(node) not in names:
            node = node.value
        return module.code(_base(node)) in names

    for node in tree.nodes_in(place):
        if tree.index(node) in new:
            continue
        if isinstance(node, cst.AugAssign) and is_meant(node.target):
            return True
        if isinstance(node, cst.Assign) and any(
            isinstance(item.target, cst.Subscript) and module.code(item.target) not in names and is_meant(item.target)
            for item in node.targets
        ):
            return True
        if isinstance(node, cst.Call) and _writes(module, node, names, depth):
            return True
    return False


def _writes(module: Module, call: cst.Call, names: set[str], depth: int) -> bool:
    """Whether ``call`` writes to a tensor of one of these names: a method, ``out=``, a function of the program."""
    name = called_name(call)
    in_place = changes_in_place(name) and name not in _HARMLESS
    if in_place and isinstance(call.func, cst.Attribute) and module.code(_base(call.func.value)) in names:
        return True
    given = [item for item in call.args if module.code(_base(item.value)) in names]
    if not given:
        return False
    if in_place or (module.name_of(call.func) or "").startswith("torch.distributed."):
        return True
    if any(item.keyword is not None and item.keyword.value == "out" for item in given):
        return True
    if depth <= 0:
        return False
    for function in module.fact(Dispatch).run(call):
        for param in parameters_of(function):
            passed = module.definitions.argument_of(call, function, param)
            if passed is None or module.code(_base(passed)) not in names:
                continue
            inside = _aliases(module, {param.name.value}, function)
            if _is_written(module, inside, function, range(0), depth - 1):
                return True
    return False
