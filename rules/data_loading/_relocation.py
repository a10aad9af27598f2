"""How copies to a device can move from a dataset, once per item, to the loops over its loaders, once per batch."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.datasets import CudaWork, Datasets, ItemRole
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, join, named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.loops import Loops

from ._item_tensors import stays_alone


@dataclass(frozen=True, eq=False)
class Relocation:
    """Which calls to remove, and which names to move in which loops."""

    moves: tuple[cst.Call, ...]  #: the ``x.to(device)`` of the dataset
    loops: tuple[tuple[cst.For, tuple[str, ...]], ...]  #: each with the names that it does not move yet
    suffix: str  #: the code that moves a name: ``.to(device, non_blocking=True)``


def relocation(module: Module, work: CudaWork) -> Relocation | None:
    """The plan for all moves of the ``__getitem__`` that ``work`` belongs to; None if too little is known."""
    method = work.place
    if (
        not isinstance(method, cst.FunctionDef)
        or method.name.value != "__getitem__"
        or work.role is not ItemRole.DATASET
    ):
        return None
    owner = module.tree.class_of(method)
    all_work = module.fact(Datasets).cuda_work(method, ItemRole.DATASET)
    if owner is None or not all(item.moves and _is_plain(item.node) for item in all_work):
        return None
    moves = tuple(item.node for item in all_work)
    moved = _moved_elements(module, method, moves)
    loops = _loops(module, owner)
    if moved is None or not loops or not stays_alone(module, method, moves):
        return None
    suffixes = {_suffix(module, move, loop) for move in moves for loop, _, _ in loops}
    suffix = suffixes.pop()
    if suffixes or suffix is None:
        return None
    found: list[tuple[cst.For, tuple[str, ...]]] = []
    for loop, loader, target in loops:
        names = _names(target, len(moved))
        if names is None or not isinstance(loop.body, cst.IndentedBlock):
            return None
        already = {
            receiver.value
            for call in module.fact(Loading).transfers(loader)
            if isinstance(call.func, cst.Attribute) and isinstance(receiver := call.func.value, cst.Name)
        }
        found.append(
            (loop, tuple(name for name, is_moved in zip(names, moved, strict=True) if is_moved and name not in already))
        )
    return Relocation(moves, tuple(found), suffix)


def _is_plain(call: cst.Call) -> bool:
    """``x.to(device)`` or ``x.cuda()``, with no other argument than ``non_blocking``."""
    assert isinstance(call.func, cst.Attribute)
    given = [item for item in call.args if item.keyword is None or item.keyword.value != "non_blocking"]
    if any(item.star for item in given):
        return False
    return len(given) == (1 if call.func.attr.value == "to" else 0)


def _moved_elements(module: Module, method: cst.FunctionDef, moves: tuple[cst.Call, ...]) -> tuple[bool, ...] | None:
    """Which of the returned elements of ``method`` are moved; None if a move is not for a returned element."""
    returned = module.definitions.returns(method)
    if len(returned) != 1 or returned[0] is None:
        return None
    value = returned[0]
    elements = [item.value for item in value.elements] if isinstance(value, cst.Tuple) else [value]
    if any(isinstance(element, (cst.Dict, cst.List, cst.DictComp)) for element in elements):
        return None
    waiting = set(moves)
    moved: list[bool] = []
    for element in elements:
        sources: list[cst.CSTNode] = [element]
        if isinstance(element, cst.Name):
            sources += [
                item.node
                for item in module.names.bindings(element)
                if item.kind is BindingKind.ASSIGN and not item.path
            ]
        mine = {move for move in waiting if any(module.tree.within(move, source) for source in sources)}
        waiting -= mine
        moved.append(bool(mine))
    return tuple(moved) if not waiting else None


def _loops(module: Module, owner: cst.ClassDef) -> list[tuple[cst.For, Call, cst.BaseExpression]]:
    """The loops over all loaders of the dataset class, with the targets of the batches; empty if one is unknown."""
    found: list[tuple[cst.For, Call, cst.BaseExpression]] = []
    for loader in module.fact(Loading).loaders_of(owner):
        consumers = module.fact(Loading).consumers(loader)
        if not consumers or not loader.argument("collate_fn").absent:
            return []
        for consumer in consumers:
            target = _batch_target(module, consumer.node)
            if target is None or not isinstance(consumer.node, cst.For):
                return []
            if all(loop is not consumer.node for loop, _, _ in found):
                found.append((consumer.node, loader, target))
    return found


def _batch_target(module: Module, loop: cst.CSTNode) -> cst.BaseExpression | None:
    """The target that ``for ... in loader`` or ``for i, ... in enumerate(loader)`` binds a batch to."""
    if not isinstance(loop, cst.For):
        return None
    over = module.fact(Loops).of(loop).over
    if over.kind is Kind.BATCH:
        return loop.target
    if isinstance(loop.target, cst.Tuple) and len(over.elements) == len(loop.target.elements) == 2:
        return loop.target.elements[1].value if over.elements[1].kind is Kind.BATCH else None
    return None


def _names(target: cst.BaseExpression, count: int) -> list[str] | None:
    elements = [item.value for item in target.elements] if isinstance(target, cst.Tuple) else [target]
    if len(elements) != count:
        return None
    names = [element.value for element in elements if isinstance(element, cst.Name)]
    return names if len(names) == count and "_" not in names else None


def _suffix(module: Module, move: cst.Call, loop: cst.For) -> str | None:
    """The code that moves a batch in ``loop`` to the device of ``move``."""
    assert isinstance(move.func, cst.Attribute)
    if move.func.attr.value == "cuda":
        return ".cuda(non_blocking=True)"
    target = next(item.value for item in move.args if item.keyword is None or item.keyword.value != "non_blocking")
    if isinstance(target, cst.SimpleString):
        return f".to({target.value}, non_blocking=True)"
    here, there = module.tree.scope_of(loop), module.tree.scope_of(move)
    name = target.value if isinstance(target, cst.Name) else "device"
    scope = module.names.scope_with(name, here)
    if scope is None or any(item.kind not in (BindingKind.PARAM, BindingKind.ASSIGN) for item in scope.bindings[name]):
        return None
    if isinstance(target, cst.Name) and module.names.scope_with(name, there) is not scope:
        return None
    if isinstance(target, cst.Attribute) and (dotted_name(target) or "").count(".") != 1:
        return None
    bindings = scope.bindings[name]
    if scope is here and any(item.order > module.tree.index(loop) for item in bindings):
        return None
    value = join([module.values.binding_value(item) for item in bindings])
    return f".to({name}, non_blocking=True)" if named_device(value) is Device.CUDA else None
