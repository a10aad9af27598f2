"""Where a loader's batches go: the loop that takes them, the network that is run on them, the copy to CUDA."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.batch_parts import BatchParts
from torchlint.model.data.datasets import CudaWork, Datasets, ItemRole
from torchlint.model.data.host_data import HostData
from torchlint.model.data.lightning import FITS, Lightning
from torchlint.model.data.loaders import Loaders
from torchlint.model.data.memory import Memory
from torchlint.model.data.pipelines import Pipelines
from torchlint.model.data.previews import is_preview, takes_first
from torchlint.model.data.transfers import Transfers
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Role, iterated
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name
from torchlint.model.tensors.devices import Devices
from torchlint.model.training import loops
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops, batch_origins, gives_batches
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes


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
                    yield self._consumer(loader, node)

    def feeds_network(self, loader: Call) -> Consumer | None:
        """The place where the batches of ``loader`` are run through a network, None if the file shows none."""
        return next((consumer for consumer in self.consumers(loader) if consumer.forward is not None), None)

    def _consumer(self, loader: Call, node: cst.CSTNode) -> Consumer:
        if isinstance(node, cst.Call) and self._forest.value(node).role is not Role.BATCH:
            return Consumer(node, node)  # a trainer's fit
        loop = node if isinstance(node, (cst.For, cst.While)) else None
        around = loop or next((item.node for item in self._forest.fact(Loops).around(node)), None)
        forward = None
        if around is not None:
            if (around, loader.node) not in self._networks_in:
                self._networks_in[around, loader.node] = self._network_in(around.body, loader)
            forward = self._networks_in[around, loader.node]
        return Consumer(around or node, forward or next(iter(self._forwards.get(loader.node, ())), None))

    def _network_in(self, body: cst.CSTNode, loader: Call) -> cst.Call | None:
        """A call in ``body``, or in a function of the file called there, that runs or trains a network."""
        calls = self._tree.calls_in(body)
        made = [item.node for item in self._forest.fact(Loaders).creating_calls(loader)]
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
        networks = self._forest.fact(Networks)
        return (
            loops.is_backward(call)
            or loops.is_step(call)
            or networks.is_forward(call)
            or networks.runs_network(call)  # `model.encode_image(images)`
        )

    @cached_property
    def _consuming_places(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """For each loader the loops, comprehensions, ``next`` calls and trainers that take its batches."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for loop in self._forest.fact(Loops).all():
            for origin in loop.loaders:
                found[origin].append(loop.node)
        for node in self._tree.scopes:
            if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
                taken = iterated(self._forest.value(node.for_in.iter))
                for origin in batch_origins(taken) if gives_batches(taken) else ():
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
        for origin in filter(self._lightning.runs, self._lightning.hooks):
            found[origin] += self._lightning.trainers
        for run, data in self._values.engines.runs:
            for origin in batch_origins(iterated(self._forest.value(data))):
                found[origin].append(run)
        return self._forest.fact(Loaders).with_base_calls(found)

    @cached_property
    def _forwards(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """For each loader the forward calls that are given its batches."""
        found: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
        for call in self._tree.calls:
            for origin in self._run_on(call):
                found[origin].append(call)
        return self._forest.fact(Loaders).with_base_calls(found)

    def _run_on(self, call: cst.Call) -> frozenset[cst.CSTNode]:
        """The loaders whose batches ``call`` runs a network on."""
        if not call.args or not (self._forest.fact(Networks).is_forward(call) or self._asks_network(call)):
            return frozenset()
        return frozenset().union(*(batch_origins(self._forest.value(item.value)) for item in call.args))

    def _asks_network(self, call: cst.Call) -> bool:
        """`model.generate(...)`, `model.encode(...)`: a method of a network, given a batch."""
        return isinstance(call.func, cst.Attribute) and self._forest.value(call.func.value).kind is Kind.MODULE

    # -- to CUDA

    def transfers(self, loader: Call) -> list[cst.Call]:
        """The calls that copy batches of ``loader``, or parts of them, to a CUDA device; or the trainer that does."""
        return self._forest.fact(Transfers).of(loader) if self.consumers(loader) else []

    def transfer_to_pin_for(self, loader: Call) -> cst.Call | None:
        """A copy of the batches of ``loader`` to a CUDA device that pinning them makes faster.

        One at every step, if there is any. None if only labels are copied, which are a few numbers each, or graphs of
        DGL, which are not pinned; if these contain the features, the other parts are small. None also if each batch is
        the first of a new iterator and no worker loads it: it is then pinned where it is used. A loader that Accelerate
        prepared copies all of a batch; it may contain only prompts, unless a network is trained on it.
        """
        places = self._consuming_places.get(loader.node, ())
        if not self._has_workers(loader) and places and all(takes_first(self._forest, node) for node in places):
            return None
        parts_of = self._forest.fact(BatchParts)
        transfers = self.transfers(loader)
        if any(map(parts_of.is_of_graph_with_features, transfers)):
            return None
        prepared = self._forest.fact(Transfers).by_accelerate(loader)
        trains = self._forest.fact(Gradients).trains
        if prepared is not None and any(trains(consumer.node) for consumer in self.consumers(loader)):
            return prepared
        found = [call for call in transfers if not parts_of.is_of_labels(call) and not parts_of.is_of_graph(call)]
        parts = [parts_of.cast_to_float(call.func.value) for call in found if isinstance(call.func, cst.Attribute)]
        cast = [name for name in parts if name]
        is_each = any(isinstance(self._tree.function_of(call), cst.Lambda) for call in found)  # of `map(..., batch)`
        if (len(set(cast)) > 1 or is_each) and 2 * len(cast) > len(parts):
            return None  # a dataset of 64-bit numbers: the casts make new tensors, which are not pinned
        return next((call for call in found if self._forest.fact(Loops).hot(call)), next(iter(found), None))

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
        is_unbatched = loader.argument("batch_size").literal() == "None"
        if (is_unbatched and not self._forest.fact(Pipelines).read_files(dataset)) or not self._uses_gpu(loader):
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
