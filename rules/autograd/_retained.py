"""Backward passes that keep a graph which nothing uses again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loop, Loops, is_backward, is_batch

#: Kinds of values from outside of a step that carry no graph.
_WITHOUT_GRAPH = frozenset(
    {
        Kind.MODULE, Kind.LOADER, Kind.BATCH, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.LOSS, Kind.DATASET,
        Kind.DEVICE, Kind.DTYPE, Kind.NUMBER, Kind.STRING, Kind.CLASS, Kind.FUNCTION, Kind.ARRAY, Kind.NONE,
    }
)  # fmt: skip
#: Libraries whose networks keep no tensor from one call to the next.
_LIBRARIES = ("torch.nn.", "torchvision.", "timm.", "transformers.", "segmentation_models_pytorch.")
#: Names of what a loop takes batches from.
_DATA = re.compile(r"batch|loader|data|samples", re.IGNORECASE)
_DEPTH = 12


@dataclass(frozen=True, eq=False)
class Retained:
    """A backward pass that retains its graph."""

    call: cst.Call
    argument: cst.Arg  #: ``retain_graph=True``
    step: cst.For | cst.While  #: the loop whose iterations have this backward pass alone


class RetainedGraphs:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Retained]:
        """The backward passes that keep a graph although nothing else goes back through it, in order."""
        for call in self._module.own_methods("backward", "manual_backward"):
            argument = _retaining(call)
            loops = self._module.fact(Loops).around(call.node) if argument is not None else []
            if argument is None or not loops:
                continue
            step, loss = loops[0].node, _loss_of(call)
            if not _binds_data(loops[0]) or loss is None or not self._is_alone(call.node, step) or self._keeps_state:
                continue
            if self._is_of_step(loss, step, _DEPTH):
                yield Retained(call.node, argument, step)

    def _is_alone(self, call: cst.Call, step: cst.For | cst.While) -> bool:
        """Whether an iteration has no other backward pass, nor calls anything of the program that has one."""
        gradients = self._module.fact(Gradients)
        for other in self._tree.calls_in(step.body):
            if other is call or self._tree.within(other, call):
                continue
            if gradients.is_backward(other):
                if not self._tree.exclusive(call, other):
                    return False
                continue
            if any(
                gradients.is_backward(inner)
                for item in self._module.definitions.called(other, self._module.values)
                if isinstance(item, cst.FunctionDef)
                for inner in self._tree.calls_in(item.body)
            ):
                return False
            name = (dotted_name(other.func) or "").lower()
            if (
                "penalty" in name
                or "backward" in name
                or name.endswith(("make_dot", "jacobian", "hessian", "jvp", "vjp"))
            ):
                return False
        return True

    @cached_property
    def _keeps_state(self) -> bool:
        """Whether a network of the program stores something of one call for the next one."""
        return any(
            (function := self._tree.function_of(statement)) is not None
            and isinstance(function, cst.FunctionDef)
            and function.name.value in ("forward", "__call__", "step")
            and (dotted_name(target) or "").startswith("self.")
            for target, _, statement in self._tree.stores
        )

    # -- what the loss is made of

    def _is_of_step(self, node: cst.CSTNode, step: cst.For | cst.While, depth: int) -> bool:
        """Whether all that ``node`` is computed from is computed in the same iteration, or has no graph."""
        if depth <= 0:
            return False
        for part in self._tree.nodes_in(node):
            if isinstance(part, cst.Call) and not self._is_known_call(part):
                return False
            if isinstance(part, cst.Attribute):
                owner = self._tree.parent(part)
                called = isinstance(owner, cst.Call) and owner.func is part
                if dotted_name(part) is not None and (dotted_name(part) or "").startswith("self."):
                    if not called and self._module.value(part).kind not in _WITHOUT_GRAPH:
                        return False
            if (
                isinstance(part, cst.Name)
                and not self._is_member(part)
                and not self._is_name_of_step(part, step, depth)
            ):
                return False
        return True

    def _is_member(self, name: cst.Name) -> bool:
        """Whether a name is the last part of an attribute, or a keyword."""
        above = self._tree.parent(name)
        if isinstance(above, cst.Attribute):
            return above.attr is name or (dotted_name(above) is not None and name.value == "self")
        return isinstance(above, cst.Arg) and above.keyword is name

    def _is_name_of_step(self, name: cst.Name, step: cst.For | cst.While, depth: int) -> bool:
        if name.value in ("True", "False", "None", "self") or self._module.name_of(name) is not None:
            return True
        reached = self._module.values.reaching.of(name)
        return bool(reached) and all(self._is_bound_in_step(item, name, step, depth) for item in reached)

    def _is_bound_in_step(self, binding: Binding, name: cst.Name, step: cst.For | cst.While, depth: int) -> bool:
        if not self._tree.within(binding.node, step) and binding.node is not step:
            return self._module.value(name).kind in _WITHOUT_GRAPH
        if binding.node is step:
            return True  # the batch
        if self._tree.index(binding.node) > self._tree.index(name):
            return False  # from the iteration before
        if binding.kind in (BindingKind.ASSIGN, BindingKind.FOR, BindingKind.WITH) and binding.value is not None:
            return self._is_of_step(binding.value, step, depth - 1)
        if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, cst.AugAssign):
            return self._is_of_step(binding.node.value, step, depth - 1)
        return False

    def _is_known_call(self, call: cst.Call) -> bool:
        """Whether a call is one of a library, of a function of the program, or of a network that is seen."""
        if self._module.name_of(call.func) is not None:
            return True
        value = self._module.value(call.func)
        if value.kind is Kind.MODULE:
            of_library = value.name.startswith(_LIBRARIES) and value.name != "torch.nn.Module"
            return value.definition is not None or of_library
        if value.kind is Kind.LOSS or self._module.definitions.called(call, self._module.values):
            return True
        return isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) != "self"  # `x.to(device)`


def _binds_data(loop: Loop) -> bool:
    """Whether what an iteration is given has no graph of its own: a batch or a number, not one of several losses."""
    if isinstance(loop.node, cst.While) or is_batch(loop.over) or loop.over.kind in _WITHOUT_GRAPH:
        return True
    return _is_data(loop.node.iter)


def _is_data(node: cst.BaseExpression) -> bool:
    """Whether a loop is over ``range(...)`` or data by its name, also through ``tqdm``."""
    while isinstance(node, cst.Call) and node.args:
        if dotted_name(node.func) == "range":
            return True
        node = node.args[0].value
    return _DATA.search(dotted_name(node) or "") is not None


def _retaining(call: Call) -> cst.Arg | None:
    """The argument ``retain_graph=True``, where nothing else asks for the graph."""
    found, gradient, again = (call.argument(name) for name in ("retain_graph", "gradient", "create_graph"))
    if call.opaque or found.literal() != "True" or not (again.absent or is_none(again.value)):
        return None
    if gradient.node is not None and gradient.node.keyword is not None and not is_none(gradient.node.value):
        return None  # by position, it may be the loss
    return found.node


def _loss_of(call: Call) -> cst.BaseExpression | None:
    """What the backward pass begins at."""
    given = [item.value for item in call.node.args if item.keyword is None]
    if not is_backward(call.node):
        return None
    if given and is_none(given[0]):  # `loss.backward(None, True)`
        return call.receiver if len(given) < 3 else None
    return None if len(given) > 1 else given[0] if given else call.receiver
