"""Calls of ``nn.MultiheadAttention`` whose second result is not used."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.parameters import parameters_of, positional_parameters

_LAYER = "torch.nn.MultiheadAttention"
#: Parameters that ask for weights, or that depend on whether they are computed.
_ABOUT_WEIGHTS = frozenset({"need_weights", "average_attn_weights", "is_causal"})
#: How many arguments precede ``need_weights``: queries, keys, values and a mask.
_BEFORE = 4
#: Layers that take one input, and containers that do.
_OF_ONE_INPUT = frozenset(
    f"torch.nn.{name}"
    for name in "Linear LayerNorm RMSNorm BatchNorm1d Dropout Identity GELU ReLU SiLU Sequential ModuleList".split()
)


class AttentionWeights:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def unused(self) -> Iterator[tuple[cst.Call, cst.CSTNode | None]]:
        """The calls that compute unused weights, each with where its layer is made, in order."""
        if "register_forward_hook" in self._module.own_text:
            return
        for call in self._tree.calls_in(self._module.root):
            if not isinstance(call.func, (cst.Attribute, cst.Name, cst.Subscript)) or len(call.args) < 3:
                continue
            if self._may_ask(call) or not self._takes_first(call):
                continue
            layer = self._module.value(call.func)
            if layer.name == _LAYER:
                yield call, next(iter(sorted(layer.origins, key=self._tree.index)), None)
            elif created := self._contained(call) or self._only_fitting(call, layer):
                yield call, created

    def _contained(self, call: cst.Call) -> cst.CSTNode | None:
        """Where the layers are created of a container, one of which ``call`` runs; None if it may run others.

        Those that take no such arguments do not count: ``for attend, forward in self.layers``.
        """
        layer = call.func
        created = self._module.fact(ObjectFlow).of(layer) if isinstance(layer, (cst.Name, cst.Subscript)) else ()
        fitting = [item for item in created if not (isinstance(item, cst.Call) and self._rejects(item, call))]
        calls = [item for item in fitting if isinstance(item, cst.Call) and self._module.name_of(item.func) == _LAYER]
        return min(calls, key=self._tree.index) if calls and len(calls) == len(fitting) else None

    def _only_fitting(self, call: cst.Call, layer: Value) -> cst.CSTNode | None:
        """Where the layer is created, if no other network that ``call`` may run takes these arguments."""
        if layer.kind is not Kind.MODULE or not layer.sure:
            return None
        fitting = [item for item in layer.origins if not self._rejects(item, call)]
        is_layer = [self._module.value(item).name == _LAYER for item in fitting]
        return min(fitting, key=self._tree.index) if is_layer and all(is_layer) else None

    def _rejects(self, created: cst.CSTNode, call: cst.Call) -> bool:
        """Whether a network takes other arguments than ``call`` passes: one input, other keywords, more or fewer."""
        if self._module.value(created).name in _OF_ONE_INPUT:
            return True
        owner = self._module.value(created).definition
        forward = self._module.definitions.method(owner, "forward") if isinstance(owner, cst.ClassDef) else None
        if forward is None:
            return False
        params = parameters_of(forward)
        given = {item.keyword.value for item in call.args if item.keyword is not None}
        unknown = given - {item.name.value for item in params}
        if unknown and not isinstance(forward.params.star_kwarg, cst.Param):
            return True
        positional, taken = [item for item in call.args if item.keyword is None], positional_parameters(forward)[1:]
        if len(positional) > len(taken) and not isinstance(forward.params.star_arg, cst.Param):
            return True
        required = [item for item in params[1:] if item.default is None]
        return len(call.args) < len(required)

    def _may_ask(self, call: cst.Call) -> bool:
        """Whether a call may say something about the weights."""
        return len([item for item in call.args if item.keyword is None]) > _BEFORE or any(
            item.star or (item.keyword is not None and item.keyword.value in _ABOUT_WEIGHTS) for item in call.args
        )

    def _takes_first(self, call: cst.Call) -> bool:
        """Whether only the first of the two results is read."""
        above = self._tree.parent(call)
        if isinstance(above, cst.Subscript):
            return above.value is call and self._module.code(above).endswith("[0]")
        if not isinstance(above, cst.Assign) or len(above.targets) != 1:
            return False
        target = above.targets[0].target
        if isinstance(target, cst.Name):
            uses = self._uses(target)
            return bool(uses) and all(
                isinstance(place := self._tree.parent(use), cst.Subscript)
                and place.value is use
                and self._module.code(place).endswith("[0]")
                for use in uses
            )
        if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
            return False
        second = target.elements[1].value  # of `out, *_`, too
        return isinstance(second, cst.Name) and not self._uses(second)

    def _uses(self, target: cst.Name) -> list[cst.Name]:
        """Where what an assignment gives a name is read; of a name that is not only of a function, all its uses."""
        scope = self._tree.scope_of(target)
        if isinstance(scope.node, cst.FunctionDef) and target.value not in scope.outer_names:
            assigned = self._tree.statement_of(target)
            given = (item for item in scope.bindings[target.value] if item.node is assigned)
            reached = (use for item in given for use in self._module.values.reaching.uses_of(item, scope))
            return [use for use in reached if not self._is_bound(use)]
        home = self._module.names.home_of(target)
        return [
            use
            for use in self._tree.names.get(target.value, ())
            if use is not target and self._module.names.home_of(use) is home and not self._is_bound(use)
        ]

    def _is_bound(self, use: cst.Name) -> bool:
        """Whether a name is given another value there."""
        above = self._tree.parent(use)
        while isinstance(above, (cst.BaseElement, cst.Tuple, cst.List)):
            above = self._tree.parent(above)
        return isinstance(above, (cst.AssignTarget, cst.CompFor)) or (
            isinstance(above, cst.For) and self._tree.within(use, above.target)
        )
