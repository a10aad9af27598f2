"""How large a network is, where the file says: whether all its matrix products are too small to keep a GPU busy."""

from __future__ import annotations

import sys

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import last_part
from torchlint.model.training.constructors import Constructors

#: A layer with no more weights than this (128 x 128, or the pixels of a digit by ten classes) is tiny.
_TINY = 128 * 128

#: Recurrent layers, with the matrices that they apply at each step.
_RECURRENT = {"RNN": 1, "LSTM": 4, "GRU": 3, "RNNCell": 1, "LSTMCell": 4, "GRUCell": 3}
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
#: Classes without layers of their own.
_BASES = ("torch.nn.Module", "torch.nn.Sequential", "pytorch_lightning.LightningModule")
_WITHOUT_LAYERS = ("torch", "builtins", "numpy", "einops")
#: Parts of the names of layers that multiply no matrices ...
_LIGHT_WORDS = ("Norm", "Loss", "Embedding")
#: ... and of functions that do.
_HEAVY_FUNCTIONS = ("conv", "linear", "attention")


class Sizes(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def is_tiny(self, network: cst.BaseExpression) -> bool:
        """Whether the file shows every layer of ``network``, and all are tiny."""
        made = self._forest.fact(Constructors).of(network)
        sizes = [self._largest(call, set()) for call in made or ()]
        return bool(sizes) and all(size is not None and size <= _TINY for size in sizes)

    def largest(self, network: cst.BaseExpression) -> int | None:
        """The weights of the largest layer of ``network``; None if the file does not show them all."""
        sizes = [self._largest(call, set()) for call in self._forest.value(network).origins]
        known = [size for size in sizes if size is not None]
        return max(known) if known and len(known) == len(sizes) else None

    def _largest(self, place: cst.CSTNode, seen: set[cst.CSTNode]) -> int | None:
        """The weights of the largest layer built in ``place``; None if one of them is not known."""
        largest = 0
        for call in self._forest.tree.calls_in(place):
            size = self._size(call, seen)
            if size is None:
                return None
            largest = max(largest, size)
        return largest

    def _size(self, call: cst.Call, seen: set[cst.CSTNode]) -> int | None:
        """The weights of the largest layer that ``call`` itself builds; 0 for none, None if that is not known."""
        largest = 0
        for definition in self._forest.definitions.called(call, self._forest.values):
            if isinstance(definition, cst.ClassDef) and self._forest.value(call).kind is Kind.MODULE:
                if not self._is_seen(definition) or self._is_given_networks(call):
                    return None
                for current in self._forest.definitions.lineage(definition):
                    if current not in seen:
                        seen.add(current)
                        size = self._largest(current, seen)
                        if size is None:
                            return None
                        largest = max(largest, size)
            elif self._forest.value(call).kind is Kind.MODULE:
                return None  # a function that builds one
        if self._is_other_part(call):
            return None
        name = self._forest.name_of(call.func)
        return largest if name is None else self._size_by_name(call, name)

    def _is_other_part(self, call: cst.Call) -> bool:
        """Whether an unknown value is kept and called: ``self.backbone = build(config)``."""
        target = self._forest.tree.parent(call)
        target = target.targets[0].target if isinstance(target, cst.Assign) else None
        if not isinstance(target, cst.Attribute) or self._forest.value(call).kind is not Kind.UNKNOWN:
            return False
        return any(self._forest.methods(target.attr.value))

    def _is_seen(self, definition: cst.ClassDef) -> bool:
        """Whether all bases of a class are known, and contain no layers of their own."""
        names = list(self._forest.definitions.base_names(definition))
        return bool(names) and all(name in _BASES for name in names)

    def _is_given_networks(self, call: cst.Call) -> bool:
        """Whether ``call`` is passed layers that are made elsewhere."""
        for item in call.args:
            value = self._forest.value(item.value)
            each = value.each.kind if value.each is not None else value.kind
            if item.star or (Kind.MODULE in (value.kind, each) and not isinstance(item.value, (cst.Call, cst.List))):
                return True
        return False

    def _size_by_name(self, call: cst.Call, name: str) -> int | None:
        """The same of a call of something imported."""
        last = last_part(name)
        if name.startswith("torch.nn.functional."):
            return None if any(word in last for word in _HEAVY_FUNCTIONS) else 0
        if name.startswith(("torch.nn.init.", "torch.nn.utils.")):
            return 0
        if not name.startswith("torch.nn."):
            root = name.partition(".")[0]
            known = root in _WITHOUT_LAYERS or root in sys.stdlib_module_names
            return 0 if known and self._forest.value(call).kind is not Kind.MODULE else None
        if last in _CONTAINERS:
            return None if self._is_given_networks(call) else 0
        if last.startswith(knowledge.PARAMETERLESS) or any(word in last for word in _LIGHT_WORDS):
            return 0
        if last == "Linear":
            return self._product(call, "in_features", "out_features")
        if last in _RECURRENT:
            inputs, state = self._product(call, "input_size"), self._product(call, "", "hidden_size")
            return None if inputs is None or state is None else _RECURRENT[last] * state * (inputs + state)
        return None

    def _product(self, call: cst.Call, *names: str) -> int | None:
        """The product of integer arguments, given in this order or by name; None if one is unknown."""
        result = 1
        for position, name in enumerate(names):
            if not name:
                continue
            given = [item.value for item in call.args if item.keyword is not None and item.keyword.value == name]
            if not given and position < len(call.args) and call.args[position].keyword is None:
                given = [call.args[position].value]
            constant = self._forest.value(given[0]).constant if given else None
            if not isinstance(constant, int):
                return None
            result *= constant
        return result
