"""Pinning: which loaders pin their batches, and which copies of such batches to a device the host waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.placement import Move, Placement
from torchlint.model.module import Module
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.semantics.knowledge import DATA_LOADER, Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import batch_origins
from torchlint.model.training.sources import element

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
            loaders = tuple(self._module.call(node, DATA_LOADER) for node in origins if isinstance(node, cst.Call))
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
        return loader.argument("collate_fn").absent

    # -- options, passed as they are or in a dict

    def options_of(self, loader: Call, name: str) -> list[cst.BaseExpression]:
        """What ``loader`` may be given as ``name``, by keyword, by position or in an unpacked dict of the program."""
        argument = loader.argument(name)
        if argument.value is not None:
            return [argument.value]
        found = self._module.keywords.passed(loader.node, name)
        return list(found.values) if found.known else []

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

    def _is_taken(self, node: cst.CSTNode, depth: int, path: tuple[int, ...] = ()) -> bool:
        """Whether ``node`` is a batch or a part of one as it came; of what a call gives, the part at ``path``."""
        if isinstance(node, (cst.Subscript, cst.Attribute)):
            return self._is_taken(node.value, depth)
        if isinstance(node, cst.Call):
            if self._module.name_of(node.func) in _HANDING_ON:
                return len(node.args) >= 1
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _PARTS:
                return True
            return depth > 0 and self._is_taken_in_function(node, path, depth - 1)
        if not isinstance(node, cst.Name):
            return False
        reached = self._module.values.reaching.of(node)
        return bool(reached) and all(
            binding.kind == "for"
            or (depth > 0 and binding.kind == "assign" and self._is_taken(*self._unpacked(binding, depth - 1)))
            or isinstance(binding.node, cst.Param)
            for binding in reached
        )

    def _is_taken_in_function(self, call: cst.Call, path: tuple[int, ...], depth: int) -> bool:
        """Whether all that a function of the program returns is taken from a batch: ``x, y = unpack(batch)``."""
        functions = self._module.fact(Dispatch).functions(call)
        returned = [item for function in functions for item in self._module.definitions.returns(function)]
        parts = [element(item, path) for item in returned]
        return bool(parts) and all(part is not None and self._is_taken(part, depth) for part in parts)

    def _unpacked(self, binding: Binding, depth: int) -> tuple[cst.CSTNode, int, tuple[int, ...]]:
        """The expression that ``binding`` takes: ``b`` for the second name of ``x, y = a, b``; the rest of its path."""
        value: cst.CSTNode | None = binding.value
        path = binding.path
        while path and isinstance(value, (cst.Tuple, cst.List)) and 0 <= path[0] < len(value.elements):
            value, path = value.elements[path[0]].value, path[1:]
        return binding.node if value is None else value, depth, path
