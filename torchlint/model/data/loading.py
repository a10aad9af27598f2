"""Where a loader's batches go: the loop that takes them, the network that is run on them, the copy to CUDA."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import libcst as cst

from torchlint.model.data.batch_parts import BatchParts, unwrapped
from torchlint.model.data.datasets import CudaWork, Datasets, ItemRole
from torchlint.model.data.host_data import HostData
from torchlint.model.data.lightning import FITS, Lightning
from torchlint.model.data.loaders import Loaders
from torchlint.model.data.memory import Memory
from torchlint.model.data.previews import is_preview
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role, iterated, named_device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.tensors.devices import Devices
from torchlint.model.training import loops
from torchlint.model.training.loops import Loops, batch_origins
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes

#: Helpers of other files that copy a batch to a device.
_MOVERS = re.compile(
    r"^(batch_|data_|tensors?_)?((to|2)_?(device|cuda|gpu)|cuda)$|^(move|send|copy|put|transfer|recursive)\w*_(device|cuda|gpu)$"
)
#: How many methods a batch is followed through that a network gets.
_CALLERS = 2
#: Functions that make a tensor of an array or a list.
_MAKING = frozenset(f"torch.{name}" for name in ("from_numpy", "tensor", "as_tensor", "FloatTensor", "LongTensor"))
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Consumer:
    """A place that takes batches out of a loader: a loop, a ``next(...)``, a trainer's ``fit``."""

    node: cst.CSTNode
    forward: cst.Call | None  #: a call that runs a network on them, or hands them to a trainer


class Loading(ForestFact):
    """Answers about the loaders of one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._values = forest.values
        self._datasets = forest.fact(Datasets)
        self._lightning = forest.fact(Lightning)
        self._consumers: dict[cst.CSTNode, list[Consumer]] = {}
        self._networks_in: dict[tuple[cst.CSTNode, cst.Call], cst.Call | None] = {}

    # -- the loop and the network

    def consumers(self, loader: Call) -> list[Consumer]:
        """The places in the file that take batches out of ``loader``; tests and previews do not count."""
        if loader.node not in self._consumers:
            self._consumers[loader.node] = list(self._find_consumers(loader))
        return self._consumers[loader.node]

    def _find_consumers(self, loader: Call) -> Iterator[Consumer]:
        if not self._forest.fact(Purposes).is_test(loader.node):
            for node in self._consuming_places.get(loader.node, ()):
                if not is_preview(self._forest, node):
                    yield self._consumer(loader.node, node)

    def feeds_network(self, loader: Call) -> Consumer | None:
        """The place where the batches of ``loader`` are run through a network, None if the file shows none."""
        return next((consumer for consumer in self.consumers(loader) if consumer.forward is not None), None)

    def _consumer(self, loader: cst.Call, node: cst.CSTNode) -> Consumer:
        if isinstance(node, cst.Call) and self._forest.value(node).role is not Role.BATCH:
            return Consumer(node, node)  # a trainer's fit
        loop = node if isinstance(node, (cst.For, cst.While)) else None
        around = loop or next((item.node for item in self._forest.fact(Loops).around(node)), None)
        forward = None
        if around is not None:
            if (around, loader) not in self._networks_in:
                self._networks_in[around, loader] = self._network_in(around.body, loader)
            forward = self._networks_in[around, loader]
        return Consumer(around or node, forward or next(iter(self._forwards.get(loader, ())), None))

    def _network_in(self, body: cst.CSTNode, loader: cst.Call) -> cst.Call | None:
        """A call in ``body``, or in a function of the file called there, that runs or trains a network."""
        calls = self._tree.calls_in(body)
        made = self._made_by.get(loader, [loader])
        forward = next((call for call in calls if not self._run_on(call).isdisjoint(made)), None)
        if forward is not None:
            return forward
        for call in calls:
            if self._runs_network(call):
                return call
            for definition in self._forest.definitions.called(call, self._values):
                if isinstance(definition, cst.FunctionDef) and any(
                    self._runs_network(inner) for inner in self._tree.calls_in(definition.body)
                ):
                    return call
        return None

    def _runs_network(self, call: cst.Call) -> bool:
        return loops.is_backward(call) or loops.is_step(call) or self._forest.fact(Networks).is_forward(call)

    @cached_property
    def _consuming_places(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """For each loader the loops, comprehensions, ``next`` calls and trainers that take its batches."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for loop in self._forest.fact(Loops).all():
            for origin in loop.loaders:
                found[origin].append(loop.node)
        for node in self._tree.scopes:
            if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
                for origin in batch_origins(iterated(self._forest.value(node.for_in.iter))):
                    found[origin].append(node)
        for call in self._tree.calls:
            func = call.func
            last = called_name(call)
            if last in ("next", "__next__"):
                for origin in batch_origins(self._forest.value(call)):
                    found[origin].append(call)
            elif last in FITS and isinstance(func, cst.Attribute):
                for origin in self._lightning.taken_by(call, func):
                    found[origin].append(call)
        for origin in self._lightning.hooks:
            found[origin] += self._lightning.trainers
        for run, data in self._values.engines.runs:
            for origin in batch_origins(iterated(self._forest.value(data))):
                found[origin].append(run)
        return self._with_base_calls(found)

    @cached_property
    def _forwards(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """For each loader the forward calls that are given its batches."""
        found: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
        for call in self._tree.calls:
            for origin in self._run_on(call):
                found[origin].append(call)
        return self._with_base_calls(found)

    def _run_on(self, call: cst.Call) -> frozenset[cst.CSTNode]:
        """The loaders whose batches ``call`` runs a network on."""
        if not call.args or not (self._forest.fact(Networks).is_forward(call) or self._asks_network(call)):
            return frozenset()
        return frozenset().union(*(batch_origins(self._forest.value(item.value)) for item in call.args))

    @cached_property
    def _made_by(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """For each call of ``super().__init__`` that makes loaders the calls that create their objects."""
        return {loader.node: made for loader, made in self._forest.fact(Loaders).made_by.items()}

    def _with_base_calls(self, found: dict[cst.CSTNode, list[T]]) -> dict[cst.CSTNode, list[T]]:
        """What is known of the objects of a class, for the call of ``super().__init__`` that makes them loaders."""
        for loader, made in self._made_by.items():
            found[loader] = list(dict.fromkeys(item for call in made for item in found.get(call, ())))
        return found

    def _asks_network(self, call: cst.Call) -> bool:
        """`model.generate(...)`, `model.encode(...)`: a method of a network, given a batch."""
        return isinstance(call.func, cst.Attribute) and self._forest.value(call.func.value).kind is Kind.MODULE

    # -- to CUDA

    def transfers(self, loader: Call) -> list[cst.Call]:
        """The calls that copy batches of ``loader``, or parts of them, to a CUDA device; or the trainer that does."""
        return self._transfers.get(loader.node, []) if self.consumers(loader) else []

    def transfer_to_pin_for(self, loader: Call) -> cst.Call | None:
        """A copy of the batches of ``loader`` to a CUDA device that pinning them makes faster.

        One at every step, if there is any. None if only labels are copied, which are a few numbers each, or graphs of
        DGL, which are not pinned; if these contain the features, the other parts are small.
        """
        parts_of = self._forest.fact(BatchParts)
        transfers = self.transfers(loader)
        if any(map(parts_of.is_of_graph_with_features, transfers)):
            return None
        found = [call for call in transfers if not parts_of.is_of_labels(call) and not parts_of.is_of_graph(call)]
        parts = [parts_of.cast_to_float(call.func.value) for call in found if isinstance(call.func, cst.Attribute)]
        cast = [name for name in parts if name]
        is_each = any(isinstance(self._tree.function_of(call), cst.Lambda) for call in found)  # of `map(..., batch)`
        if (len(set(cast)) > 1 or is_each) and 2 * len(cast) > len(parts):
            return None  # a dataset of 64-bit numbers: the casts make new tensors, which are not pinned
        return next((call for call in found if self._forest.fact(Loops).hot(call)), next(iter(found), None))

    @cached_property
    def _transfers(self) -> dict[cst.CSTNode, list[cst.Call]]:
        found: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
        for call in self._tree.calls:
            for origin in self._moved_by(call):
                if call not in found[origin]:
                    found[origin].append(call)
        for origin in self._lightning.hooks:
            found[origin] += filter(self._lightning.is_on_gpu, self._lightning.trainers)
        return self._with_base_calls(found)

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
        """The loaders whose whole batches a network gets, if ``part`` is ``batch["image"]`` of such a parameter."""
        if isinstance(part, cst.Name):
            part = self._values.reaching.assigned(part)
        while isinstance(part, cst.Subscript) and isinstance(part.value, cst.Subscript):
            part = part.value
        index = part.slice[0].slice if isinstance(part, cst.Subscript) else None
        is_item = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
        return self._passed_as(part.value, _CALLERS) if isinstance(part, cst.Subscript) and is_item else frozenset()

    def _passed_as(self, batch: cst.BaseExpression, depth: int) -> frozenset[cst.CSTNode]:
        """The loaders whose batches, not yet moved, the callers of a method pass for the parameter ``batch``."""
        param = self._values.reaching.parameter(batch)
        method = owner_of(self._tree, param) if param is not None else None
        if method is None or param is None or self._tree.class_of(method) is None:
            return frozenset()
        found: set[cst.CSTNode] = set()
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

    # -- the dataset

    def dataset(self, loader: Call) -> cst.BaseExpression | None:
        """The expression passed as the loader's dataset."""
        return self._datasets.given_to(loader)

    def loaders_of(self, definition: cst.ClassDef) -> list[Call]:
        """The loaders whose dataset is of a class of the file, or of one derived from it, in order."""
        return self._loaders_of.get(definition, [])

    @cached_property
    def _loaders_of(self) -> dict[cst.ClassDef, list[Call]]:
        found: dict[cst.ClassDef, list[Call]] = defaultdict(list)
        for loader in self._forest.fact(Loaders).calls:
            definition = self._forest.value(self.dataset(loader)).definition
            if definition is not None:
                for item in self._forest.definitions.lineage(definition):
                    found[item].append(loader)
        return found

    def cuda_work(self, loader: Call) -> list[CudaWork]:
        """What the loader's dataset, transforms and collate function do on CUDA, as far as the file shows them."""
        found: list[CudaWork] = []
        dataset = self.dataset(loader)
        value = self._forest.value(dataset)
        if isinstance(value.definition, cst.ClassDef) and value.kind is not Kind.CLASS:
            for method in self._datasets.item_functions(value.definition):
                found += self._datasets.cuda_work(method, ItemRole.DATASET)
        for transform in self._datasets.transforms(dataset):
            found += self._datasets.cuda_work(transform, ItemRole.TRANSFORM)
        for collate in self._datasets.collates(loader.argument("collate_fn").value):
            found += self._datasets.cuda_work(collate, ItemRole.COLLATE)
        return found

    def yields_cuda(self, loader: Call) -> bool:
        """Whether the loader's batches may already be on a CUDA device, or are made on one."""
        if self.cuda_work(loader) or self._datasets.on_cuda(self.dataset(loader)):
            return True
        for name in ("collate_fn", "generator"):
            given = loader.argument(name).value
            if isinstance(given, cst.Call) and any(
                self._datasets.is_cuda_device(argument.value) for argument in given.args
            ):
                return True
        return False

    def all_cuda_work(self) -> list[CudaWork]:
        """The CUDA work of every dataset class, transform and collate function of the file, in order."""
        found: dict[cst.CSTNode, CudaWork] = {}
        for definition in self._tree.classes:
            made = self._values.instance(definition)
            if made.kind is Kind.DATASET and made.sure:
                for method in self._datasets.item_functions(definition):
                    found.update((work.node, work) for work in self._datasets.cuda_work(method, ItemRole.DATASET))
        for loader in self._forest.fact(Loaders).calls:
            # A function that selects from data on the GPU, by positions, has no batch to copy.
            on_gpu = self._forest.fact(Memory).is_counted(self.dataset(loader)) and not self._has_workers(loader)
            works = self.cuda_work(loader)
            found.update((work.node, work) for work in works if not (on_gpu and work.role is ItemRole.COLLATE))
        return sorted(found.values(), key=lambda work: self._tree.index(work.node))

    def _has_workers(self, loader: Call) -> bool:
        workers = loader.argument("num_workers")
        return not (workers.absent or workers.literal() == "0")

    def yields_host_tensors(self, loader: Call) -> bool:
        """Whether the file shows that the loader's batches are tensors on the host, as its own collation makes them."""
        collate = loader.argument("collate_fn")
        host_data = self._forest.fact(HostData)
        collates = [] if collate.absent else self._datasets.collates(collate.value)
        if loader.opaque or not (collate.absent or collates) or not all(map(host_data.is_plain, collates)):
            return False
        return not self.yields_cuda(loader) and host_data.is_visible(self.dataset(loader))

    # -- worker processes

    def waits_for(self, loader: Call) -> Consumer | None:
        """Where a GPU waits for ``loader``, if making its items is work that workers could do."""
        dataset = self.dataset(loader)
        if any(not loader.argument(name).absent for name in ("multiprocessing_context", "timeout")):
            return None  # a loader that speaks of processes has been thought about
        if loader.argument("batch_size").literal() == "None" or not self._uses_gpu(loader):
            return None
        if not self._datasets.sharded(dataset) or self.yields_cuda(loader):
            return None
        if self._forest.fact(Memory).holds(dataset) and not self._datasets.collation_reads_files(loader):
            return None
        is_copied = bool(self.transfers(loader)) and not self._forest.is_in_guard(loader.node)
        copied = self.consumers(loader) if is_copied else ()
        return self.feeds_network(loader) or next(iter(copied), None)

    def _uses_gpu(self, loader: Call) -> bool:
        return self._forest.fact(Devices).uses_cuda or self._gpu_by_library or bool(self.transfers(loader))

    @cached_property
    def _gpu_by_library(self) -> bool:
        """Whether a library that finds the GPU by itself runs the network."""
        if self._lightning.trainers:
            return self._lightning.is_on_gpu(self._lightning.trainers[0])
        return self._forest.fact(Devices).uses_trainer
