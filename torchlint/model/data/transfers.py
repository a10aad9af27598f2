"""The copies of batches to CUDA: by ``.to(device)``, a helper, a trainer, or a loader that Accelerate prepared."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property

import libcst as cst

from torchlint.model.data.batch_parts import CONTENTS, BatchParts, unwrapped
from torchlint.model.data.lightning import FITS, Lightning, passed_loaders
from torchlint.model.data.loaders import Loaders
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import ACCELERATE, Kind
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call, keywords_of
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.tensors.devices import Devices
from torchlint.model.training.loops import batch_origins

#: Helpers of other files that copy a batch to a device.
_MOVERS = re.compile(
    r"^(batch_|data_|tensors?_)?((to|2)_?(device|cuda|gpu)|cuda)$|^(move|send|copy|put|transfer|recursive)\w*_(device|cuda|gpu)$"
)
#: How many methods a batch is followed through that a network gets.
_CALLERS = 2
#: Functions that make a tensor of an array or a list.
_MAKING = frozenset(f"torch.{name}" for name in ("from_numpy", "tensor", "as_tensor", "FloatTensor", "LongTensor"))


class Transfers(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._values = forest.values
        self._lightning = forest.fact(Lightning)

    def of(self, loader: Call) -> list[cst.Call]:
        """The calls that copy batches of ``loader``, or parts of them, to a CUDA device; or the trainer that does."""
        return self._transfers.get(loader.node, [])

    def by_accelerate(self, loader: Call) -> cst.Call | None:
        """The ``accelerator.prepare(loader)`` by which ``loader`` copies each batch to a CUDA device."""
        return next(iter(self._prepared.get(loader.node, ())), None)

    @cached_property
    def _prepared(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """By loader the calls that prepare it with an ``Accelerator`` of Accelerate on a GPU."""
        found: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
        for call in self._forest.methods("prepare", "prepare_data_loader"):
            if call.argument("device_placement").absent and self._is_accelerator_on_gpu(call.receiver):
                for origin in passed_loaders(self._forest, call.node):
                    found[origin].append(call.node)
        return self._forest.fact(Loaders).with_base_calls(found)

    def _is_accelerator_on_gpu(self, node: cst.BaseExpression | None) -> bool:
        """Whether ``node`` is an ``Accelerator`` whose loaders copy to the GPU, as they do by default."""
        value = self._forest.value(node)
        made = [item for item in value.origins if isinstance(item, cst.Call)]
        if not value.origins and not value.sure:
            imported = self._forest.imported_by(self._tree.root_of(node)) if node is not None else ()
            is_imported = any(name.partition(".")[0] == "accelerate" for name in imported)
            return is_imported and value.kind is Kind.TRAINER and value.name in ACCELERATE  # by its name and its uses
        return bool(made) and all(
            self._forest.name_of(item.func) in ACCELERATE and not self._stays_on_cpu(item) for item in made
        )

    def _stays_on_cpu(self, accelerator: cst.Call) -> bool:
        """Whether an ``Accelerator`` has ``cpu=True``, or leaves the batches where they are."""
        given = keywords_of(accelerator)
        on_cpu, moves = (self._forest.value(given.get(name)).constant for name in ("cpu", "device_placement"))
        return on_cpu is True or moves is False

    @cached_property
    def _transfers(self) -> dict[cst.CSTNode, list[cst.Call]]:
        found: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
        for call in self._tree.calls:
            for origin in self._moved_by(call):
                if call not in found[origin]:
                    found[origin].append(call)
        for origin in filter(self._lightning.runs, self._lightning.hooks):
            found[origin] += filter(self._lightning.is_on_gpu, self._lightning.trainers)
        return self._forest.fact(Loaders).with_base_calls(found)

    def _moved_by(self, call: cst.Call) -> frozenset[cst.CSTNode]:
        func = call.func
        nothing: frozenset[cst.CSTNode] = frozenset()
        if isinstance(func, cst.Attribute):
            attr = func.attr.value
            if attr in ("to", "cuda", "type"):
                parts = self._forest.fact(BatchParts)
                origins = batch_origins(self._forest.value(func.value)) or self.given_to_network(func.value)
                origins = origins or parts.given(func.value) or self._tensors_of(func.value)
                moved = bool(origins) and self._forest.fact(Devices).is_move_to_cuda(call)
                return origins if moved and parts.may_be_part(func.value) else nothing
            if attr == "copy_" and call.args and self._forest.value(func.value).device is Device.CUDA:
                return batch_origins(self._forest.value(call.args[0].value))
            if attr in FITS:
                trainer = self._lightning.trainer_of(func)
                is_moved = trainer is not None and self._lightning.is_on_gpu(trainer)
                return self._lightning.taken_by(call, func) if is_moved else nothing
        name = last_name(func)
        if (
            call.args
            and name.endswith(("device", "gpu", "cuda"))
            and _MOVERS.search(name)
            and not self._moves_new_tensors(call)
        ):
            origins = batch_origins(self._forest.value(call.args[0].value))
            devices = [argument.value for argument in call.args[1:]]
            if origins and (any(self._is_cuda(node) for node in devices) or "cuda" in name):
                return origins
        elif name.endswith(("Loader", "DL", "Prefetcher", "prefetcher")) and len(call.args) > 1:
            if any(self._is_cuda(argument.value) for argument in call.args[1:]):
                value = self._forest.value(call.args[0].value)
                return value.origins if value.kind is Kind.LOADER else nothing
        return nothing

    def _tensors_of(self, node: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """The loaders of ``torch.as_tensor(batch)``, which is the batch; not if a collate function may give arrays."""
        held = unwrapped(self._forest, node)
        loaders = batch_origins(self._forest.value(held)) if held is not node else frozenset()
        return frozenset(
            item
            for item in loaders
            if isinstance(item, cst.Call)
            and (made := self._forest.fact(Loaders).of(item)) is not None
            and made.argument("collate_fn").absent
        )

    def given_to_network(self, part: cst.BaseExpression | None) -> frozenset[cst.CSTNode]:
        """The loaders whose whole batches a network gets, if ``part`` is ``batch["image"]`` of such a parameter.

        Or ``batch[0]``, ``batch[key]``, or one of the names that it is unpacked to or that iterate over it.
        """
        bound = self._values.reaching.only(part) if isinstance(part, cst.Name) else None
        if bound is not None and bound.kind is BindingKind.ASSIGN and bound.path and isinstance(bound.value, cst.Name):
            return self._passed_as(bound.value, _CALLERS)  # `images, labels = batch`
        if bound is not None and bound.kind is BindingKind.FOR and isinstance(bound.value, cst.Call):
            func = bound.value.func  # `for key, value in batch.items()`
            if isinstance(func, cst.Attribute) and func.attr.value in CONTENTS:
                return self._passed_as(func.value, _CALLERS)
        if isinstance(part, cst.Name):
            part = unpacked(bound.value, bound.path) if bound is not None and bound.kind is BindingKind.ASSIGN else None
        while isinstance(part, cst.Subscript) and isinstance(part.value, cst.Subscript):
            part = part.value
        index = part.slice[0].slice if isinstance(part, cst.Subscript) else None
        is_item = isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.Integer, cst.Name))
        return self._passed_as(part.value, _CALLERS) if isinstance(part, cst.Subscript) and is_item else frozenset()

    def _passed_as(self, batch: cst.BaseExpression, depth: int) -> frozenset[cst.CSTNode]:
        """The loaders whose batches, not yet moved, the callers of a method pass for the parameter ``batch``."""
        param = self._values.reaching.parameter(batch)
        method = owner_of(self._tree, param) if param is not None else None
        if method is None or param is None or self._tree.class_of(method) is None:
            return frozenset()
        found = set(self._lightning.moved_in(method, param))
        for given in self._forest.fact(Dispatch).arguments_for(method, param):
            value = self._forest.value(given)
            if value.kind is Kind.BATCH and value.device is None:
                found |= value.origins
            elif value.kind is Kind.UNKNOWN and depth > 0:
                found |= self._passed_as(given, depth - 1)
        return frozenset(found)

    def _moves_new_tensors(self, call: cst.Call) -> bool:
        """Whether a function of the program makes the tensors that it moves: batches of arrays are never pinned."""
        moved = [
            move.func.value
            for function in self._forest.definitions.called(call, self._values)
            for move in self._tree.calls_in(function)
            if isinstance(move.func, cst.Attribute) and move.func.attr.value in ("to", "cuda")
        ]
        return bool(moved) and all(
            any(self._forest.name_of(inner.func) in _MAKING for inner in self._tree.calls_in(item)) for item in moved
        )

    def _is_cuda(self, node: cst.BaseExpression) -> bool:
        return named_device(self._forest.value(node)) is Device.CUDA
