"""Loaders of distributed training from which each process takes all items."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.data.loading import Consumer, Loading
from torchlint.model.module import Module
from torchlint.model.program.switches import Switches
from torchlint.model.syntax.calls import Call
from torchlint.model.training.alternatives import mentions
from torchlint.model.training.loops import LoopKind, Loops, is_backward, is_step

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
#: Words of programs that divide the data in some way, or whose library does so.
_DIVIDES = re.compile(
    r"Sampler|IterableDataset|shard|webdataset|\bwds\.|ffcv|nvidia\.dali|split_by_|split_dataset|scatter_object|num_replicas"
    r"|accelerat|lightning|deepspeed|horovod|Fabric|ignite|fairscale|colossalai|catalyst|composer|\.distribute\("
    r"|(rank|RANK|world_size|WORLD_SIZE)\w*['\")]*\s*(::|%|//|\*)|\w\[[\w.\s:]{0,80}(rank|world_size)\w{0,20}\]"
    r"|[%/]\s*(args\.|opt\.|self\.|cfg\.)?(world_size|num_gpus|ngpus)"
)
#: Arguments of a dataset, or words of its class, by which it may divide its items itself.
_RANK = re.compile(r"rank|world|replica|shard|dist\b|distributed|num_gpus|ngpu", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class UnshardedLoader:
    """A loader whose items each process takes."""

    call: Call
    shuffle: cst.Arg
    consumer: Consumer
    wrapper: Call  #: where the network is wrapped
    is_always_distributed: bool


class UnshardedLoaders:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def all(self) -> Iterator[UnshardedLoader]:
        """The loaders of the file that shuffle all items for each process of a distributed training, in order."""
        wrappers = list(self._module.calls(_WRAPPER))
        if not wrappers or mentions(self._module, _DIVIDES):
            return
        switches = self._module.fact(Switches)
        always = not any(switches.conditional(call.node) for call in wrappers)
        for call in self._module.fact(Loaders).within(self._module.root):
            shuffle = call.argument("shuffle")
            if shuffle.literal() != "True" or shuffle.node is None or call.opaque:
                continue
            if not call.argument("sampler").absent or not call.argument("batch_sampler").absent:
                continue
            if switches.conditional(call.node) or self._may_divide(call):
                continue
            consumer = self._training(call)
            if consumer is not None:
                yield UnshardedLoader(call, shuffle.node, consumer, wrappers[0], always)

    def _may_divide(self, call: Call) -> bool:
        """Whether the dataset may contain the items of one process only."""
        dataset = call.argument("dataset").value
        if dataset is None:
            return True
        value = self._module.value(dataset)
        written = self._module.written.sources(dataset)
        places: list[cst.CSTNode] = [*value.origins, *(written.values if written is not None else ())]
        if value.definition is not None:
            places.append(value.definition)
        return any(_RANK.search(self._module.code(place)) for place in (dataset, *places))

    def _training(self, call: Call) -> Consumer | None:
        """The loop of a training that takes the batches, once per epoch."""
        for consumer in self._module.fact(Loading).consumers(call):
            if isinstance(consumer.node, cst.For) and self._trains(consumer.node) and self._is_of_epoch(consumer.node):
                return consumer
        return None

    def _trains(self, loop: cst.For) -> bool:
        calls = self._module.tree.calls_in(loop.body)
        if any(is_backward(inner) for inner in calls) and any(is_step(inner) for inner in calls):
            return True
        return any(
            is_backward(inner)
            for item in calls
            for definition in self._module.definitions.called(item, self._module.values)
            if isinstance(definition, cst.FunctionDef)
            for inner in self._module.tree.calls_in(definition.body)
        )

    def _is_of_epoch(self, loop: cst.For) -> bool:
        """Whether a loop over epochs contains the loop over the batches, or calls its function."""
        function = self._module.function_of(loop)
        calls = self._module.callers(function).calls if function is not None else ()
        return any(
            around.kind is LoopKind.EPOCH
            for place in (loop, *calls)
            for around in self._module.fact(Loops).around(place)
        )
