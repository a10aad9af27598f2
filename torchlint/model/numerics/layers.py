"""What a network is made of: the layers and functions of libraries that the file shows inside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import PRODUCTS, Kind
from torchlint.model.syntax.calls import Call, keywords_of
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.parameters import parameters_of

#: Libraries whose networks are made of convolutions, unless the name says otherwise ...
_CONVOLUTIONAL = ("torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.")
#: ... as these do.
_TRANSFORMERS = ("vit", "swin", "deit", "beit", "transformer", "former", "mixer", "gmlp", "clip", "dino", "eva", "mvit")

_CONVOLUTIONS = frozenset({"torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d"})
#: Networks of grouped convolutions, one group a channel as a rule.
_DEPTHWISE = re.compile(r"mobile|efficientnet|mnasnet|shufflenet|regnet|convnext|resnext|xception|mixnet|ghost|nfnet")


@dataclass(frozen=True)
class Layers:
    """What is seen inside one network."""

    calls: tuple[Call, ...]  #: the calls that make its layers, and those that compute in it
    places: frozenset[cst.CSTNode] = frozenset()  #: the definitions and calls that these were looked for in
    #: convolutions that cut their input into patches: the stride is the size of the kernel, and no kernel of 1
    patches: frozenset[cst.CSTNode] = frozenset()

    def any(self, *names: str) -> bool:
        """Whether one of the calls is of a class or function of torch.nn that is called so."""
        return any(call.name.startswith("torch.nn.") and last_part(call.name) in names for call in self.calls)

    @property
    def convolves(self) -> bool:
        """Whether two-dimensional convolutions are seen, or a network of a library that is made of them."""
        return self.any("Conv2d", "ConvTranspose2d", "LazyConv2d", "conv2d", "conv_transpose2d") or any(
            _is_convolutional(call) for call in self.calls
        )

    @property
    def is_depthwise(self) -> bool:
        """Whether some convolutions may be split into groups, or are those of a network known for that."""
        for call in self.calls:
            if call.name.startswith("torch.nn.") and "onv" in last_part(call.name):
                given = keywords_of(call.node)
                if call.opaque or ("groups" in given and not _is_one(given["groups"])):
                    return True
                if len(call.node.args) - len(given) > 6:
                    return True
            elif _DEPTHWISE.search(_text_of(call)):
                return True
        return False

    @property
    def product(self) -> Call | None:
        """The layer that multiplies matrices, where they are what the network is made of: no head of convolutions.

        A convolution that embeds patches does not count: each weight is used once per patch, as in a linear layer.
        Behind one, a few convolutions may be the head of a transformer.
        """
        others = [call for call in self.calls if call.node not in self.patches and _convolves(call)]
        found = [call for call in self.calls if call.name.startswith("torch.nn.") and last_part(call.name) in PRODUCTS]
        if others and (not self.patches or len(others) >= len(found) or any(map(_is_convolutional, others))):
            return None
        whole = [call for call in found if not call.name.endswith("inear")]
        return whole[0] if whole else found[0] if len(found) > 1 else None


class NetworkLayers(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._known: dict[frozenset[cst.CSTNode], Layers] = {}

    def of(self, network: cst.BaseExpression) -> Layers | None:
        """What ``network`` is made of; None if it is not seen where it comes from."""
        value = self._forest.value(network)
        made: frozenset[cst.CSTNode] = value.origins
        if not made and isinstance(value.definition, cst.ClassDef):
            made = frozenset({value.definition})
        if value.kind is not Kind.MODULE or not made:
            return None
        if made not in self._known:
            seen: set[cst.CSTNode] = set()
            places = sorted(made, key=self._forest.tree.index)
            calls = tuple(call for place in places for call in self._inside(place, seen))
            patches = frozenset(call.node for call in calls if self._embeds_patches(call))
            self._known[made] = Layers(calls, frozenset(seen), patches)
        return self._known[made]

    def _embeds_patches(self, call: Call) -> bool:
        """``nn.Conv2d(3, dim, kernel_size=patch, stride=patch)``, or two parameters that have the same default."""
        if call.name not in _CONVOLUTIONS:
            return False
        kernel, stride = call.argument("kernel_size").value, call.argument("stride").value
        if kernel is None or stride is None or _is_one(kernel):
            return False
        sizes = [self._forest.code(self._default(node) or node) for node in (kernel, stride)]
        return sizes[0] == sizes[1] != "1"

    def _default(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The default of the parameter that ``node`` is."""
        function = self._forest.function_of(node)
        given = parameters_of(function) if function is not None and isinstance(node, cst.Name) else ()
        return next((param.default for param in given if dotted_name(param.name) == dotted_name(node)), None)

    def _inside(self, place: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Call]:
        """The calls of libraries in ``place`` and in what it calls."""
        forest = self._forest
        for call in forest.tree.calls_in(place):
            name = forest.name_of(call.func)
            if name is not None and name.startswith(("torch.", *_CONVOLUTIONAL)):
                yield forest.call(call, name)
            for item in call.args:  # Sequential(*layers)
                for made in forest.fact(ObjectFlow).elements(item.value) if item.star == "*" else ():
                    if isinstance(made, cst.Call) and made not in seen and not forest.tree.within(made, place):
                        seen.add(made)
                        yield from self._inside(made, seen)
            handed = (item.value for item in call.args if isinstance(item.value, cst.Name))  # ResNet(BasicBlock, ...)
            for node in (call.func, *handed):
                for definition in forest.definitions.referenced(node, forest.values):
                    for current in forest.definitions.lineage(definition) or (definition,):
                        if current not in seen:
                            seen.add(current)
                            yield from self._inside(current, seen)


def _convolves(call: Call) -> bool:
    """Whether ``call`` is of a convolution, or of a network of a library that is made of them."""
    alone = Layers((call,))
    return alone.convolves or alone.any("Conv1d", "Conv3d", "conv1d", "conv3d")


def _is_convolutional(call: Call) -> bool:
    if not _is_library(call):
        return False
    named = call.name.startswith("torchvision.models.") or any(_strings(call))
    return named and not any(word in _text_of(call) for word in _TRANSFORMERS)


def _strings(call: Call) -> Iterator[str]:
    for item in call.node.args:
        if isinstance(item.value, cst.SimpleString):
            yield item.value.value


def _text_of(call: Call) -> str:
    """The name of a network of a library: that of the function, and the strings it is given."""
    return " ".join([last_part(call.name), *_strings(call)]).lower() if _is_library(call) else ""


def _is_library(call: Call) -> bool:
    return call.name.startswith(_CONVOLUTIONAL)


def _is_one(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"
