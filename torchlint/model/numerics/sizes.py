"""How large a network is, where the file says: whether all its matrix products are too small to keep a GPU busy."""

from __future__ import annotations

import sys
from collections.abc import Collection

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.numerics.widths import Widths
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_part
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
        sizes = self._largest_of(network)
        return bool(sizes) and all(size is not None and size <= _TINY for size in sizes)

    def has_no_layers(self, network: cst.BaseExpression) -> bool:
        """Whether the file shows that ``network`` has no layers: a loss, or a process that runs other networks."""
        sizes = self._largest_of(network)
        return bool(sizes) and all(size == 0 for size in sizes)

    def _largest_of(self, network: cst.BaseExpression) -> list[int | None]:
        """The weights of the largest layer of each network that ``network`` may be; None if they are not known."""
        made = self._forest.fact(Constructors).of(network)
        return [self._largest(call, set()) for call in made or ()]

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
                given = self._given(call, seen)
                if given is None or not self._is_seen(definition) or self._runs_items(definition):
                    return None
                largest = max(largest, given)
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
        if name in knowledge.COPIES:
            return self._given(call, seen)
        return largest if name is None else self._size_by_name(call, name, seen)

    def _is_other_part(self, call: cst.Call) -> bool:
        """Whether an unknown value is kept and called: ``self.backbone = build(config)``."""
        target = self._forest.tree.parent(call)
        target = target.targets[0].target if isinstance(target, cst.Assign) else None
        if not isinstance(target, cst.Attribute) or self._forest.value(call).kind is not Kind.UNKNOWN:
            return False
        if knowledge.NO_NETWORK.search(target.attr.value):
            return False  # a loss, which has no layers
        return any(self._forest.methods(target.attr.value))

    def _runs_items(self, definition: cst.ClassDef) -> bool:
        """Whether a class keeps unknown items and calls them: ``self.first = parts["first"]``."""
        return any(
            isinstance(item.value, cst.Subscript)
            and self._forest.value(item.value).kind is Kind.UNKNOWN
            and any(self._forest.methods(name))
            for name, bindings in self._forest.tree.scopes[definition].attributes.items()
            for item in bindings
        )

    def _is_seen(self, definition: cst.ClassDef) -> bool:
        """Whether all bases of a class are known, and contain no layers of their own."""
        names = list(self._forest.definitions.base_names(definition))
        return bool(names) and all(name in _BASES for name in names)

    def _given(self, call: cst.Call, seen: set[cst.CSTNode]) -> int | None:
        """The weights of the largest layer that ``call`` is passed and that is made elsewhere; None if unknown."""
        places: list[cst.CSTNode] = []
        for item in call.args:
            value = self._forest.value(item.value)
            each = value.each.kind if value.each is not None else value.kind
            if isinstance(item.value, (cst.Call, cst.List)) and not item.star:
                continue
            found: Collection[cst.CSTNode] | None = ()
            if item.star or (each is Kind.MODULE and value.kind is not Kind.MODULE):
                found = self._listed(item.value)
            elif value.kind is Kind.MODULE:
                found = self._forest.fact(Constructors).of(item.value) or None
            if found is None:
                return None
            places += [place for place in found if place not in seen]
            seen.update(places)
        sizes = [self._largest(place, seen) for place in places]
        known = [size for size in sizes if size is not None]
        return max(known, default=0) if len(known) == len(sizes) else None

    def _listed(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """What fills a list that a function or class keeps, ``*self.layers``; None unless its layers are made there."""
        tree, name = self._forest.tree, dotted_name(node)
        home: cst.CSTNode | None = tree.function_of(node)
        if is_attribute_of_self(node):
            home = tree.class_of(home) if isinstance(home, cst.FunctionDef) else None
        elif not isinstance(node, cst.Name):
            return None
        if home is None:
            return None
        filled = [
            item.value
            for item in tree.inside(home, cst.Assign)
            if any(dotted_name(target.target) == name for target in item.targets)
        ]
        filled += [item.value for item in tree.inside(home, cst.AugAssign) if dotted_name(item.target) == name]
        for call in tree.calls_named("append", "extend", "insert"):
            if isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == name and call.args:
                filled += [call.args[-1].value] if tree.within(call, home) else []
        return filled if filled and all(map(_makes_layers, filled)) else None

    def _size_by_name(self, call: cst.Call, name: str, seen: set[cst.CSTNode]) -> int | None:
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
            return self._given(call, seen)
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
            width = self._forest.fact(Widths).largest(given[0]) if given else None
            if width is None:
                return None
            result *= width
        return result


def _makes_layers(node: cst.BaseExpression | None) -> bool:
    """Whether all that ``node`` gives a list is made in it: ``[nn.Linear(8, 8), nn.Mish() if smooth else act()]``."""
    if isinstance(node, cst.List):
        return all(_makes_layers(item.value) for item in node.elements)
    if isinstance(node, cst.IfExp):
        return _makes_layers(node.body) and _makes_layers(node.orelse)
    if isinstance(node, cst.BinaryOperation):
        return _makes_layers(node.left) and _makes_layers(node.right)
    return isinstance(node, cst.Call)
