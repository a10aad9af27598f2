"""Uses of the tensors of a ``no_grad`` block that ``inference_mode`` does not allow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import base_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.suspension import suspension_in
from torchlint.model.tensors.writes import Writes
from torchlint.model.training.gradients import LEAVING
from torchlint.model.training.outputs import Outputs

_IN_PLACE = "no fix: a tensor created in the block is changed in place"
_LAZY = "no fix: the first forward pass creates the parameters of the lazy layer"
_SUSPENDED = "no fix: `inference_mode` would stay enabled for other code while this is suspended"


class InferenceTensors:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._known: dict[cst.CSTNode, list[tuple[int, cst.CSTNode, cst.Name]]] = {}

    def obstacle(self, manager: cst.CSTNode, body: cst.CSTNode) -> tuple[str, cst.CSTNode] | None:
        """Why the body of a ``no_grad`` cannot run under ``inference_mode``, and the place; None if nothing shows it.

        A decorator applies to the function alone, also while a generator is suspended.
        """
        names = [name for name in self._module.names.calls if name.startswith("torch.nn.Lazy")]
        lazy = next(self._module.calls(*names), None)
        if lazy is not None:
            return _LAZY, lazy.node
        if not isinstance(self._tree.parent(manager), cst.WithItem):
            return None
        suspended = suspension_in(self._tree, body)
        if suspended is not None:
            return _SUSPENDED, suspended
        changed = self._changed_outside(body)
        return None if changed is None else (_IN_PLACE, changed)

    def _changed_outside(self, body: cst.CSTNode) -> cst.CSTNode | None:
        """The first statement or call outside of ``body`` that changes a tensor in place that was created in it."""
        runs = self._module.fact(Outputs).tensor_calls(body)
        home = self._module.function_or_file(body)
        changes = self._changes_in(home)
        begin = bisect_left(changes, self._tree.index(body), key=itemgetter(0))
        end = bisect_right(changes, self._tree.last(body), key=itemgetter(0))
        found = [
            node
            for _, node, name in changes[begin:end]
            if not self._tree.within(node, body) and self._is_created_in(name, body, runs) and self._changes(node, name)
        ]
        return min(found, key=self._tree.index, default=None)

    def _changes_in(self, home: cst.CSTNode) -> list[tuple[int, cst.CSTNode, cst.Name]]:
        """What may change a tensor in place in a function or file, by where the tensor may be from.

        Each with the index of a binding that it may see, which sorts them, and the name of the tensor.
        """
        if home not in self._known:
            writes = self._module.fact(Writes)
            found = dict.fromkeys(
                (self._tree.index(bound.node), node, name)
                for node in self._tree.nodes_in(home)
                for item in (*writes.by(node), *(given.value for given in getattr(node, "args", ())))
                for name in self._names(item)
                for bound in self._module.values.reaching.of(name)
            )
            self._known[home] = sorted(found, key=itemgetter(0))
        return self._known[home]

    def _names(self, changed: cst.BaseExpression) -> set[cst.Name]:
        """The names of the tensor that an expression is, or is a part or a view of."""
        origins = self._module.fact(Writes).aliases.of(changed)
        bases = {base_of(changed), *(base_of(origin.node) for origin in origins)}
        return {base for base in bases if isinstance(base, cst.Name)}

    def _changes(self, node: cst.CSTNode, name: cst.Name) -> bool:
        """Whether a statement or call changes the tensor of this name, or a function of the program that it calls."""
        writes = self._module.fact(Writes)
        if any(name in self._names(item) for item in writes.by(node)):
            return True
        return isinstance(node, cst.Call) and any(name in self._names(item) for item, _ in writes.affected_by(node))

    def _is_created_in(self, name: cst.Name, body: cst.CSTNode, runs: set[cst.CSTNode]) -> bool:
        """Whether ``name`` may contain a tensor that ``body`` created from one of ``runs``."""
        reached = self._module.values.reaching.of(name)
        inside = [item for item in reached if self._tree.within(item.node, body)]
        if not any(self._carries(item, runs) for item in inside):
            return False
        if any(item.kind is not BindingKind.AUGMENT for item in inside):
            return True
        scope = self._module.names.home_of(name)
        bound = scope.bindings[name.value] if scope is not None else []
        first = [self._module.values.binding_value(item) for item in bound if item.kind is BindingKind.ASSIGN]
        return not (first and all(value.kind is Kind.TENSOR for value in first))  # `total += x` keeps that tensor

    def _carries(self, binding: Binding, runs: set[cst.CSTNode]) -> bool:
        value = binding.node.value if isinstance(binding.node, cst.AugAssign) else binding.value
        return value is not None and self._module.fact(Outputs).carries(value, runs, LEAVING)
