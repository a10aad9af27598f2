"""Networks whose forward pass leaves out layers: on a condition, or by what a caller passes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.conditions import Condition, ConditionKind, conditions
from torchlint.model.syntax.dotted import is_attribute_of_self, last_name, last_part
from torchlint.model.syntax.literals import is_constant_name
from torchlint.model.training.networks import Networks

#: Conditions that differ from step to step, and whether they are true.
_Path = frozenset[tuple[cst.CSTNode, bool]]
#: A class, and the text of the layer that its methods run: ``self.head``.
_Layer = tuple[cst.ClassDef, str]
_RANDOM = ("random.", "numpy.random.", "torch.rand", "torch.bernoulli")
#: How many methods call each other, how many networks are followed, and how many conditions are combined.
_DEPTH, _NETWORKS, _CONDITIONS = 3, 40, 8
#: How the names of layers with weights begin.
_WITH_WEIGHTS = (
    "Linear",
    "Bilinear",
    "Conv",
    "LazyLinear",
    "LazyConv",
    "Embedding",
    "LSTM",
    "GRU",
    "MultiheadAttention",
)
#: Encoders of transformers whose last layer is a pooler.
_POOLED = frozenset({"BertModel", "RobertaModel", "XLMRobertaModel", "AlbertModel", "CamembertModel", "AutoModel"})
#: What reads the output of a pooler, or makes an encoder without one.
_USES_POOLER = re.compile(r"pool|\[1\]|,\s*\w+\s*=\s*self\.")


class PartialForwards:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def leaves_out(self, network: cst.BaseExpression) -> bool:
        """Whether a layer of the network, or of a network in it, may take no part in a call."""
        paths: dict[_Layer, list[_Path]] = {}
        waiting: list[tuple[cst.ClassDef, cst.Call | None]] = [(item, None) for item in self._classes_of(network)]
        followed = 0
        while waiting and followed < _NETWORKS:
            owner, call = waiting.pop(0)
            if self._has_idle_part(owner):
                return True
            forward = self._module.definitions.method(owner, "forward")
            if forward is not None:
                waiting += self._follow(owner, forward, call, frozenset(), paths, _DEPTH)
            followed += 1
        return not all(map(_covers, paths.values()))

    def _has_idle_part(self, owner: cst.ClassDef) -> bool:
        """Whether an attribute of a network is a layer that nothing reads, or may be one with such layers."""
        return any(
            isinstance(item.value, cst.Call)
            and (
                self._is_unread_layer(name, item.value)
                or self._is_chosen_by_name(item.value)
                or self._is_unpooled(owner, name, item.value)
            )
            for definition in self._module.definitions.lineage(owner)
            for name, bound in self._tree.scopes[definition].attributes.items()
            for item in bound
        )

    def _is_unread_layer(self, name: str, made: cst.Call) -> bool:
        """Whether a layer with weights is only assigned: ``self.fc`` of a network that is used without its head."""
        layer = self._module.name_of(made.func) or ""
        if not layer.startswith("torch.nn.") or not last_part(layer).startswith(_WITH_WEIGHTS):
            return False
        uses = self._tree.attributes_named(name)
        return all(isinstance(self._tree.parent(use), cst.AssignTarget) for use in uses)

    def _is_chosen_by_name(self, made: cst.Call) -> bool:
        """``getattr(backbones, options["backbone"])()``: a network of any class."""
        chosen = made.func
        return isinstance(chosen, cst.Call) and self._module.name_of(chosen.func) == "builtins.getattr"

    def _is_unpooled(self, owner: cst.ClassDef, name: str, made: cst.Call) -> bool:
        """Whether an encoder of transformers is made with its pooler, and ``owner`` does not use what that gives."""
        func = made.func
        if isinstance(func, cst.Attribute) and func.attr.value in ("from_pretrained", "from_config"):
            func = func.value
        encoder = self._module.name_of(func) or ""
        if not encoder.startswith("transformers.") or last_part(encoder) not in _POOLED:
            return False
        code = self._module.code(owner)
        return f"self.{name}(" in code and _USES_POOLER.search(code) is None

    def _classes_of(self, network: cst.BaseExpression) -> list[cst.ClassDef]:
        value = self._module.value(network)
        if value.kind is Kind.MODULE and isinstance(value.definition, cst.ClassDef):
            return [value.definition]
        found = self._module.definitions.classes_of(value, self._module.values) if value.kind is Kind.MODULE else []
        if found or not isinstance(network, cst.Name):
            return found
        flow = self._module.fact(ObjectFlow)  # of a parameter, whatever the callers pass
        classes = dict.fromkeys(map(flow.class_of, flow.of(network)))
        return [item for item in classes if item is not None]

    def _follow(
        self,
        owner: cst.ClassDef,
        function: cst.FunctionDef,
        call: cst.Call | None,
        before: _Path,
        paths: dict[_Layer, list[_Path]],
        depth: int,
    ) -> Iterator[tuple[cst.ClassDef, cst.Call]]:
        """Add the paths on which a method runs layers for ``call``, and give the networks that it runs."""
        for inner in self._tree.calls_in(function.body):
            is_own = is_attribute_of_self(inner.func)
            method = self._module.definitions.method(owner, last_name(inner.func)) if is_own else None
            runs = method is None and self._module.fact(Networks).runs_network(inner)
            found = paths.setdefault((owner, self._module.code(inner.func)), []) if runs and is_own else []
            if call is not None and self._module.values.branches.excludes(call, function, inner):
                continue
            path = before.union(self._path(inner, function, call, owner))
            found.append(path)
            if method is not None and depth > 0:
                yield from self._follow(owner, method, inner, path, paths, depth - 1)
            elif runs:
                yield from ((item, inner) for item in self._classes_of(inner.func))

    def _path(
        self, node: cst.Call, function: cst.FunctionDef, call: cst.Call | None, owner: cst.ClassDef
    ) -> Iterator[tuple[cst.CSTNode, bool]]:
        for item in conditions(self._tree, node, function):
            is_exit = item.kind is ConditionKind.EXIT
            if is_exit and not item.leaves_by(cst.Return):
                continue
            if self._varies(item, function, call, owner):
                yield item.node, not (is_exit or item.is_else)

    def _varies(
        self, condition: Condition, function: cst.FunctionDef, call: cst.Call | None, owner: cst.ClassDef
    ) -> bool:
        """Whether a test may differ from step to step: it asks for an argument, a changed attribute or at random."""
        if condition.test is None:
            return False
        parts = list(self._tree.nodes_in(condition.test))
        return any(
            (isinstance(part, cst.Attribute) and self._is_changed(part, owner))
            or (isinstance(part, cst.Name) and self._is_variable(part, function, call))
            or (isinstance(part, cst.Call) and (self._module.name_of(part.func) or "").startswith(_RANDOM))
            for part in parts
        )

    def _is_changed(self, node: cst.Attribute, owner: cst.ClassDef) -> bool:
        """Whether another method than the constructor sets an attribute of ``self``: ``self.epoch``."""
        if not is_attribute_of_self(node):
            return False
        return any(
            home is not None and home.name.value != "__init__"
            for item in self._module.definitions.lineage(owner)
            for binding in self._tree.scopes[item].attributes.get(node.attr.value, ())
            for home in (self._module.function_of(binding.node),)
        )

    def _is_variable(self, node: cst.Name, function: cst.FunctionDef, call: cst.Call | None) -> bool:
        """Whether a name is a parameter or variable of a method that is not known to have one literal value."""
        bindings = self._tree.scopes[function].bindings.get(node.value, ())
        above = self._tree.parent(node)
        is_member = isinstance(above, cst.Attribute) and above.attr is node
        if node.value == "self" or is_member or not bindings:
            return False
        first = bindings[0]
        if len(bindings) > 1 or first.kind is not BindingKind.PARAM or not isinstance(first.node, cst.Param):
            return True
        passed = self._module.definitions.argument_of(call, function, first.node) if call is not None else None
        known = passed or (first.node.default if call is not None else None)
        return known is None or not (
            isinstance(known, (cst.SimpleString, cst.Integer, cst.Float)) or is_constant_name(known)
        )


def _covers(paths: list[_Path]) -> bool:
    """Whether one of several paths is taken whatever the conditions are."""
    if not paths or len(frozenset[tuple[cst.CSTNode, bool]]().union(*paths)) > _CONDITIONS:
        return False
    if not all(paths):
        return True
    node = next(iter(paths[0]))[0]
    return all(
        _covers([path - {(node, holds)} for path in paths if (node, not holds) not in path]) for holds in (True, False)
    )
