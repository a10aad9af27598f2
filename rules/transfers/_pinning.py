"""Pinning: which loaders pin their batches, and which copies of such batches to a device the host waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.placement import Move, Placement
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import DATA_LOADER, Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call, Presence
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import batch_origins

#: How many names an option, or a batch, is followed through.
_DEPTH = 4
#: Calls that hand on what they are given: ``next(batches)``, ``Variable(images)``, ``batch.items()``.
_HANDING_ON = frozenset({"builtins.next", "torch.autograd.Variable"})
_HANDING_OVER = ("prepare", "prepare_data_loader", "setup_dataloaders")
_PARTS = frozenset({"items", "values", "get", "pop", "next", "__next__"})


@dataclass(frozen=True, eq=False)
class BlockingCopy:
    """A copy of a pinned batch, or of a part of it, that the host waits for."""

    move: Move
    loaders: tuple[Call, ...]  #: all loaders the batch may come from
    only_tensors: bool  #: whether the batch can only be made of tensors


class Pinning:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def blocking_copies(self) -> Iterator[BlockingCopy]:
        """The copies to a device without ``non_blocking`` of batches whose loaders are all known to pin them."""
        for move in self._module.fact(Placement).moves:
            if move.device is Device.CPU or move.may_not_block:
                continue
            origins = self._origins(move.source)
            loaders = tuple(Call(node, DATA_LOADER) for node in origins if isinstance(node, cst.Call))
            if loaders and all(self.is_pinned(loader) and not self._is_handed_over(loader) for loader in loaders):
                yield BlockingCopy(move, loaders, all(self._collates_by_itself(loader) for loader in loaders))

    def is_pinned(self, loader: Call) -> bool:
        """Whether ``loader`` pins its batches where there is a GPU: ``pin_memory=True``, ``=use_cuda``."""
        given = self.options_of(loader, "pin_memory")
        return bool(given) and all(self._is_true_with_cuda(node, _DEPTH) for node in given)

    def _is_handed_over(self, loader: Call) -> bool:
        """Whether a library is given the loader, which then copies the batches by itself: ``accelerator.prepare``."""
        return any(
            loader.node in self._module.value(item.value).origins
            for call in self._module.methods(*_HANDING_OVER)
            for item in call.args
        )

    def _collates_by_itself(self, loader: Call) -> bool:
        """Whether the loader's own collation, which refuses all but tensors and numbers, makes the batches."""
        if loader.argument("batch_size").literal() == "None" or self.options_of(loader, "collate_fn"):
            return False
        return loader.argument("collate_fn").presence is not Presence.UNKNOWN or self._seen_through(loader)

    # -- options, passed as they are or in a dict

    def options_of(self, loader: Call, name: str) -> list[cst.BaseExpression]:
        """What ``loader`` may be given as ``name``, by keyword, by position or in an unpacked dict of the file."""
        argument = loader.argument(name)
        if argument.value is not None:
            return [argument.value]
        found: list[cst.BaseExpression] = []
        for item in loader.node.args:
            if item.star == "**":
                found += self._entries(item.value, name, _DEPTH)
        return found

    def _seen_through(self, loader: Call) -> bool:
        """Whether all unpacked arguments are dicts that the file writes out."""
        starred = [item for item in loader.node.args if item.star]
        return all(item.star == "**" and self._dicts(item.value, _DEPTH) for item in starred)

    def _entries(self, node: cst.BaseExpression, name: str, depth: int) -> list[cst.BaseExpression]:
        found: list[cst.BaseExpression] = []
        for table in self._dicts(node, depth):
            if isinstance(table, cst.Dict):
                for element in table.elements:
                    if isinstance(element, cst.DictElement) and self._module.value(element.key).constant == name:
                        found.append(element.value)
            elif isinstance(table, cst.Call):
                found += [item.value for item in table.args if item.keyword and item.keyword.value == name]
        return found

    def _dicts(self, node: cst.CSTNode, depth: int) -> list[cst.CSTNode]:
        """The ``{...}`` and ``dict(...)`` that an expression may stand for, and those it is updated with."""
        if isinstance(node, cst.Dict):
            return [node]
        if isinstance(node, cst.Call) and self._module.name_of(node.func) == "builtins.dict":
            return [node]
        if isinstance(node, cst.IfExp):
            return self._dicts(node.body, depth) + self._dicts(node.orelse, depth)
        if depth <= 0 or not isinstance(node, (cst.Name, cst.Attribute)):
            return []
        return [
            table
            for source, _ in self._module.fact(Gradients).sources(node)
            for table in self._dicts(source, depth - 1)
        ]

    def _is_true_with_cuda(self, node: cst.CSTNode, depth: int) -> bool:
        if isinstance(node, cst.Name):
            if node.value in ("True", "False"):
                return node.value == "True"
            sources = [source for source, _ in self._module.fact(Gradients).sources(node)] if depth > 0 else []
            return bool(sources) and all(self._is_true_with_cuda(source, depth - 1) for source in sources)
        if isinstance(node, cst.Attribute):
            sources = [item for item, _ in self._module.fact(Gradients).sources(node)] if depth > 0 else []
            return bool(sources) and all(self._is_true_with_cuda(source, depth - 1) for source in sources)
        if isinstance(node, cst.Call):
            return self._module.name_of(node.func) == "torch.cuda.is_available"
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
            return self._is_true_with_cuda(node.left, depth) or self._is_true_with_cuda(node.right, depth)
        if isinstance(node, cst.IfExp):
            return self._is_true_with_cuda(node.body, depth) and self._is_true_with_cuda(node.test, depth)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:  # `device.type == "cuda"`
            return self._module.value(node.comparisons[0].comparator).constant == "cuda"
        return False

    # -- batches

    def _origins(self, node: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """The loaders whose batch, or part of one, ``node`` is; none if anything was computed of it on the host."""
        value = self._module.value(node)
        if value.kind not in (Kind.BATCH, Kind.TENSOR) or value.device:
            return frozenset()
        return batch_origins(value) if self._is_taken(node, _DEPTH) else frozenset()

    def _is_taken(self, node: cst.CSTNode, depth: int) -> bool:
        if isinstance(node, (cst.Subscript, cst.Attribute)):
            return self._is_taken(node.value, depth)
        if isinstance(node, cst.Call):
            if self._module.name_of(node.func) in _HANDING_ON:
                return len(node.args) >= 1
            return isinstance(node.func, cst.Attribute) and node.func.attr.value in _PARTS
        if not isinstance(node, cst.Name):
            return False
        reached = self._module.values.reaching.of(node)
        return bool(reached) and all(
            binding.kind == "for"
            or (depth > 0 and binding.kind == "assign" and self._is_taken(self._unpacked(binding), depth - 1))
            or isinstance(binding.node, cst.Param)
            for binding in reached
        )

    def _unpacked(self, binding: Binding) -> cst.CSTNode:
        """The expression that ``binding`` takes: ``b`` for the second name of ``x, y = a, b``."""
        value: cst.CSTNode | None = binding.value
        for position in binding.path:
            if not isinstance(value, (cst.Tuple, cst.List)) or not 0 <= position < len(value.elements):
                break
            value = value.elements[position].value
        return binding.node if value is None else value
