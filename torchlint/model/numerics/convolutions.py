"""Convolutional networks: which ones the file runs again and again, and whether their images all have one size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.numerics.layers import Layers, NetworkLayers
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.tensors.devices import Devices
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks

#: Transforms that give every image the same size ...
_SIZING = ("CenterCrop", "RandomCrop", "RandomResizedCrop", "FiveCrop", "TenCrop")
#: ... and data sets whose images have one.
_EQUAL = ("CIFAR10", "CIFAR100", "SVHN", "STL10", "PCAM", "EuroSAT")
#: What says that sizes differ.
_VARYING = re.compile(
    r"multi_?scale|random_?resize(?!d)|random_?scale|varying|dynamic_?size|aspect_?ratio|pad_sequence", re.IGNORECASE
)


class Convolutions(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def forwards(self) -> list[tuple[cst.Call, Layers]]:
        """The first forward of each convolutional network in each loop on CUDA, with what the network is made of."""
        forest = self._forest
        if not forest.fact(Devices).uses_cuda:
            return []
        found: list[tuple[cst.Call, Layers]] = []
        seen: set[tuple[cst.CSTNode, str]] = set()
        for call in forest.tree.calls:
            loops = forest.fact(Loops).around(call)
            if not loops or not forest.fact(Networks).runs_network(call):
                continue
            network = forest.fact(Networks).network_of(call)
            layers = forest.fact(NetworkLayers).of(network)
            key = (loops[-1].node, forest.code(network))
            if layers is not None and layers.convolves and key not in seen:
                seen.add(key)
                found.append((call, layers))
        return found

    @cached_property
    def varies(self) -> bool:
        """Whether a name in the file says that sizes differ."""
        return any(_VARYING.search(word) for word in (*self._forest.tree.names, *self._forest.tree.attributes_by_name))

    @cached_property
    def one_size(self) -> cst.Call | None:
        """What shows that all images have one size: a transform, or a data set; None if they may differ."""
        forest = self._forest
        if self.varies:
            return None
        for call in forest.tree.calls:
            name = forest.name_of(call.func) or ""
            last = last_part(name)
            if name.startswith("torchvision.datasets.") and last in _EQUAL:
                return call
            if name.startswith(("torchvision.transforms.", "albumentations.")):
                if last in _SIZING or (last == "Resize" and self._is_pair(call)):
                    return call
        return None

    @cached_property
    def chooses_format(self) -> bool:
        """Whether the file speaks of a memory format."""
        tree = self._forest.tree
        words = (*tree.names, *tree.attributes_by_name, *tree.keywords)
        return any("memory_format" in word or "channels_last" in word or "nhwc" in word.lower() for word in words)

    @cached_property
    def sets_tuning(self) -> bool:
        """Whether the file sets, or reads, what has cuDNN look for the fastest kernels."""
        tree = self._forest.tree
        if "benchmark" in tree.keywords:
            return True
        uses = tree.attributes_named("benchmark")
        return any((dotted_name(node.value) or "").endswith("cudnn") for node in uses)

    def _attributes(self) -> Iterator[str]:
        return (node.attr.value for node in self._forest.tree.attributes)

    def _is_pair(self, call: cst.Call) -> bool:
        """``Resize((224, 224))``; of one number, only the shorter side gets it."""
        given = call.args[0].value if call.args else None
        if isinstance(given, (cst.Tuple, cst.List)):
            return len(given.elements) == 2
        return len(call.args) > 1 and call.args[1].keyword is None and isinstance(given, cst.Integer)
