"""Layers whose bias the batch norm behind them subtracts again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.scopes import Binding

_CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_NORMS = frozenset(f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))
_LAYERS = frozenset(f"torch.nn.{name}" for name in (*_CONVOLUTIONS, "Linear"))


@dataclass(frozen=True, eq=False)
class CancelledBias:
    """A layer with a bias, and the norm behind it."""

    layer: Call
    norm: cst.Call  #: where the norm is created


class CancelledBiases:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[CancelledBias]:
        """The layers of the file whose bias is cancelled, in order."""
        found = {pair.layer.node: pair for pair in (*self._neighbours(), *self._called())}
        return (found[node] for node in sorted(found, key=self._tree.index))

    def _neighbours(self) -> Iterator[CancelledBias]:
        """Layers next to each other in a `Sequential`, or in a list that one is made of."""
        module = self._module
        for call in module.own_calls("torch.nn.Sequential"):
            given = [self._named(item.value) for item in call.node.args if not item.star]
            yield from self._in_a_row(given)
            for item in call.node.args:
                if item.star == "*" or isinstance(item.value, cst.Call):
                    yield from self._listed(item.value)

    def _listed(self, node: cst.BaseExpression) -> Iterator[CancelledBias]:
        """Layers in the lists of `Sequential(*layers)` and `Sequential(OrderedDict([...]))`."""
        if isinstance(node, cst.Call):
            is_ordered = self._module.name_of(node.func) == "collections.OrderedDict" and len(node.args) == 1
            node = node.args[0].value if is_ordered else node
        lists: list[cst.CSTNode | None] = [node]
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if isinstance(node, cst.Name) and home is not None:
            bound = home.bindings[node.value]
            lists = [item.node.value if isinstance(item.node, cst.AugAssign) else item.value for item in bound]
        for value in lists:
            if isinstance(value, (cst.List, cst.Tuple)):
                yield from self._in_a_row([self._named(element.value) for element in value.elements])

    def _named(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The layer of ``("conv", nn.Conv2d(...))``."""
        is_pair = isinstance(node, cst.Tuple) and len(node.elements) == 2
        return node.elements[1].value if is_pair and isinstance(node, cst.Tuple) else node

    def _in_a_row(self, nodes: list[cst.BaseExpression]) -> Iterator[CancelledBias]:
        for first, second in pairwise(nodes):
            if isinstance(first, cst.Call) and isinstance(second, cst.Call):
                yield from self._pair(first, second)

    def _called(self) -> Iterator[CancelledBias]:
        """``self.norm(self.layer(x))``, also with a name between the two, where nothing else uses the layer."""
        for call in self._tree.calls_in(self._module.root):
            inner = self._operand(call)
            if inner is None or not is_attribute_of_self(call.func) or not is_attribute_of_self(inner.func):
                continue
            norm, layer = self._created(call.func), self._created(inner.func)
            if norm is not None and layer is not None and self._uses(layer, inner.func) == 1:
                yield from self._pair(layer, norm)

    def _operand(self, call: cst.Call) -> cst.Call | None:
        """The call whose result is all that ``call`` is passed, and that nothing else uses."""
        given = call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
        if isinstance(given, cst.Name):
            reached = self._module.values.reaching.of(given)
            home = self._module.names.home_of(given)
            if len(reached) != 1 or home is None or reached[0].kind is not BindingKind.ASSIGN or reached[0].path:
                return None
            if not self._rebinds(call, reached[0]):
                uses = self._module.values.reaching.uses_of(reached[0], home)
                if [use for use in uses if not isinstance(self._tree.parent(use), cst.AssignTarget)] != [given]:
                    return None
            given = reached[0].value
        return given if isinstance(given, cst.Call) else None

    def _rebinds(self, call: cst.Call, bound: Binding) -> bool:
        """Whether the next statement is ``x = self.norm(x)``, after which nothing reads the former value."""
        statement = self._tree.parent(call)
        row = self._tree.parent(statement) if isinstance(statement, cst.Assign) else None
        if (
            not isinstance(statement, cst.Assign)
            or row is None
            or self._tree.index(row) != self._tree.last(bound.node) + 1
        ):
            return False
        targets = [item.target for item in statement.targets]
        return len(targets) == 1 and isinstance(targets[0], cst.Name) and targets[0].value == bound.name

    def _created(self, func: cst.BaseExpression) -> cst.Call | None:
        """The only call whose result is stored as the attribute ``func``."""
        origins = self._module.value(func).origins
        if len(origins) != 1 or not isinstance(func, cst.Attribute):
            return None
        (made,) = origins
        above = self._tree.parent(made)
        is_stored = isinstance(above, cst.Assign) and any(
            isinstance(target.target, cst.Attribute) and target.target.attr.value == func.attr.value
            for target in above.targets
        )
        return made if is_stored and isinstance(made, cst.Call) and self._module.is_own(made) else None

    def _uses(self, layer: cst.Call, func: cst.BaseExpression) -> int:
        """How often the class reads the attribute that contains the layer."""
        owner = self._tree.class_of(self._module.function_of(layer) or layer)
        assert isinstance(func, cst.Attribute)
        reads = self._reads_of_attributes.get(func.attr.value, [])
        return sum(owner is None or self._tree.within(node, owner) for node in reads)

    @cached_property
    def _reads_of_attributes(self) -> dict[str, list[cst.Attribute]]:
        found: dict[str, list[cst.Attribute]] = {}
        for node in self._tree.attributes:
            if not isinstance(self._tree.parent(node), cst.AssignTarget):
                found.setdefault(node.attr.value, []).append(node)
        return found

    def _pair(self, layer: cst.Call, norm: cst.Call) -> Iterator[CancelledBias]:
        name = self._module.name_of(layer.func) or ""
        if name not in _LAYERS or self._module.name_of(norm.func) not in _NORMS or not norm.args:
            return
        made = self._module.call(layer, name)
        given = [item for item in layer.args if item.keyword is None]
        is_linear = name == "torch.nn.Linear"
        bias = made.argument("bias")
        is_given = len(given) > (2 if is_linear else 7) or not (bias.absent or bias.literal() == "True")
        if made.opaque or is_given:
            return
        outputs = made.argument("out_features" if is_linear else "out_channels").value
        outputs = given[1].value if outputs is None and len(given) > 1 else outputs
        features = self._module.call(norm, "").argument("num_features").value or norm.args[0].value
        if outputs is not None and self._module.code(outputs) == self._module.code(features):
            yield CancelledBias(made, norm)
