"""Loaders that take the rows of tensors one by one, though an index of a whole batch gives the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.numerics.sizes import Sizes
from torchlint.model.program.configuration import Configuration
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call

_DATASET = "torch.utils.data.TensorDataset"
_LARGE = 128  #: rows of a batch from which on the rows cost more than the step of a common network
_SMALL = 16  #: rows of a batch below which they cost little
#: Tensors with large rows, whose copies take longer than the calls.
_WIDE = re.compile(r"image|img|photo|picture|pixel|frame|video|audio|wave|voxel|volume|patch", re.IGNORECASE)


class RowCost(Enum):
    """Why the rows of a batch cost time."""

    MANY = "many"  #: there are many in a batch
    ON_GPU = "on a GPU"  #: each one is a kernel launch
    TINY_NETWORK = "tiny network"  #: the network takes less time


@dataclass(frozen=True, eq=False)
class RowLoader:
    """A loader whose dataset indexes its tensors for each row."""

    loader: Call
    cost: RowCost
    consumer: cst.CSTNode | None  #: what iterates over it


class RowLoaders:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def all(self) -> Iterator[RowLoader]:
        """The loaders of the file, in order."""
        for loader in self._module.fact(Loaders).within(self._module.root):
            if loader.opaque or not self._is_plain(loader) or not self._holds_tensors(loader):
                continue
            cost = self._cost(loader)
            consumers = self._module.fact(Loading).consumers(loader)
            if cost is not None and consumers:
                yield RowLoader(loader, cost, consumers[0].node)

    def _is_plain(self, loader: Call) -> bool:
        """Whether the loader makes its batches in this process, by default."""
        if not all(loader.argument(name).absent for name in ("collate_fn", "batch_sampler", "sampler", "generator")):
            return False
        workers = loader.argument("num_workers")
        return workers.absent or workers.literal() == "0"

    def _holds_tensors(self, loader: Call) -> bool:
        dataset = self._module.value(loader.argument("dataset").value)
        made = [origin for origin in dataset.origins if isinstance(origin, cst.Call)]
        return (
            dataset.sure
            and dataset.name == _DATASET
            and bool(made)
            and all(self._module.name_of(origin.func) == _DATASET for origin in made)
            and not any(_WIDE.search(self._module.code(item)) for origin in made for item in origin.args)
        )

    def _cost(self, loader: Call) -> RowCost | None:
        rows = self._rows(loader)
        if rows is None:  # few programs that keep their data on the GPU have batches of a few rows
            is_set = not loader.argument("batch_size").absent
            return RowCost.ON_GPU if is_set and self._is_on_gpu(loader) else None
        if rows < _SMALL:
            return None
        if rows >= _LARGE:
            return RowCost.MANY
        if self._is_on_gpu(loader):
            return RowCost.ON_GPU
        fed = self._module.fact(Loading).feeds_network(loader)
        if fed is None or not isinstance(fed.forward, cst.Call):
            return None
        names = {node.value: node for node in self._module.tree.inside(fed.node, cst.Name)}
        networks = [node for node in names.values() if self._module.value(node).kind is Kind.MODULE]
        are_tiny = all(map(self._module.fact(Sizes).is_tiny, (fed.forward.func, *networks)))
        return RowCost.TINY_NETWORK if are_tiny else None

    def _rows(self, loader: Call) -> int | None:
        """The rows of a batch: a constant, or the smallest number that a setting has."""
        given = loader.argument("batch_size").value
        if given is None:
            return None
        found = self._module.fact(Configuration).sources(given)
        values = [self._module.value(item) for item in (found.values if found is not None else (given,))]
        numbers = [value.constant for value in values if value.kind is not Kind.NONE]  # None is replaced later
        known = [number for number in numbers if isinstance(number, int)]
        return min(known) if known and len(known) == len(numbers) else None

    def _is_on_gpu(self, loader: Call) -> bool:
        made = self._module.value(loader.argument("dataset").value).origins
        return any(
            self._module.value(item.value).device is Device.CUDA
            for origin in made
            if isinstance(origin, cst.Call)
            for item in origin.args
        )
