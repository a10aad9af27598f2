"""Sums and lists that keep the loss of every training step, with its graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.scopes import Binding, Scope, unpacked
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops, is_backward, is_batch
from torchlint.model.training.steps import Steps

#: Methods of wrappers around a loss: `scaler.scale(loss).backward()`.
_SCALING = frozenset({"scale", "mean", "sum", "float"})
#: Objects that are given the loss.
_TRAINERS = re.compile(r"accelerator|engine|fabric|strategy|optim|scaler|^model|trainer", re.IGNORECASE)
#: Methods after which a sum, a list or a loss has no graph.
_RELEASING = frozenset({"clear", "pop", "popleft", "remove", "detach_"})


@dataclass(frozen=True, eq=False)
class RunningLoss:
    """A loss that is added to a sum, or appended to a list, that outlives its step."""

    loss: cst.Name  #: where it is added or appended
    kept_in: str
    statement: cst.CSTNode
    backward: cst.Call  #: the backward pass of the step
    step: cst.For | cst.While
    is_list: bool


class RunningLosses:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[RunningLoss]:
        """The losses that are kept with their graphs, in order."""
        for call in self._tree.calls_in(self._module.root):
            if is_backward(call):
                yield from self._kept(call)

    def _kept(self, backward: cst.Call) -> Iterator[RunningLoss]:
        """Where the loss of a backward pass is added up or collected in the loop of its step."""
        loss = self._loss_of(backward)
        step = next((item for item in self._tree.ancestors(backward) if item in self._steps), None)
        scope = self._module.names.home_of(loss) if loss is not None else None
        if loss is None or scope is None or not isinstance(step, (cst.For, cst.While)):
            return
        if self._module.function_of(backward) is not self._module.function_of(step):
            return
        reaching = self._module.values.reaching
        reached = set(reaching.of(loss))
        for use in reaching.uses_of(min(reached, key=lambda item: item.order), scope) if reached else ():
            if use is loss or set(reaching.of(use)) != reached or not self._tree.within(use, step.body):
                continue
            found = self._sum(use) or self._list(use)
            if found is None:
                continue
            target, statement = found
            if self._outlives(target, statement, scope, step) and not self._is_let_go(target, use, statement, step):
                is_list = not isinstance(statement, (cst.Assign, cst.AugAssign))
                yield RunningLoss(use, target.value, statement, backward, step, is_list)

    @property
    def _steps(self) -> list[cst.CSTNode]:
        return self._module.fact(Steps).places

    def _loss_of(self, backward: cst.Call) -> cst.Name | None:
        """The name of the tensor whose gradients are computed."""
        if not isinstance(backward.func, cst.Attribute):
            return None
        owner = backward.func.value
        node: cst.BaseExpression = owner
        if self._is_trainer(backward.func, owner):
            if not backward.args or backward.args[0].keyword is not None:
                return None
            node = backward.args[0].value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _SCALING:
                return None
            node = node.args[0].value if node.args else node.func.value
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide)):
            node = node.left
        return node if isinstance(node, cst.Name) else None

    def _is_trainer(self, method: cst.Attribute, owner: cst.BaseExpression) -> bool:
        """`accelerator.backward(loss)`, `self.manual_backward(loss)`."""
        if method.attr.value != "backward" or isinstance(owner, cst.Attribute):
            return True
        return isinstance(owner, cst.Name) and (
            self._module.value(owner).kind in (Kind.TRAINER, Kind.OPTIMIZER, Kind.MODULE)
            or _TRAINERS.search(owner.value) is not None
        )

    def _sum(self, use: cst.Name) -> tuple[cst.Name, cst.CSTNode] | None:
        """``total += loss`` and ``total = total + loss``, also of the loss times or divided by a number."""
        term: cst.CSTNode = use
        parent = self._tree.parent(term)
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, (cst.Multiply, cst.Divide)):
            if isinstance(parent.operator, cst.Divide) and parent.left is not term:
                return None
            term, parent = parent, self._tree.parent(parent)
        if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.AddAssign) and parent.value is term:
            return (parent.target, parent) if isinstance(parent.target, cst.Name) else None
        if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, cst.Add):
            return None
        other = parent.left if parent.right is term else parent.right
        statement = self._tree.parent(parent)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or not isinstance(other, cst.Name):
            return None
        target = statement.targets[0].target
        return (target, statement) if isinstance(target, cst.Name) and target.value == other.value else None

    def _list(self, use: cst.Name) -> tuple[cst.Name, cst.CSTNode] | None:
        """``losses.append(loss)``."""
        argument = self._tree.parent(use)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
            return None
        if call.func.attr.value != "append" or not isinstance(call.func.value, cst.Name):
            return None
        statement = self._tree.parent(call)
        return (call.func.value, statement) if isinstance(statement, cst.Expr) else None

    def _outlives(self, target: cst.Name, statement: cst.CSTNode, scope: Scope, step: cst.For | cst.While) -> bool:
        """Whether a sum begins at a number, or a list empty, before the loop, and the loop only adds to it."""
        if self._module.names.home_of(target) is not scope:
            return False
        bindings = scope.bindings.get(target.value, [])
        if any(item.node is not statement for item in bindings if self._tree.within(item.node, step)):
            return False
        before = [
            item for item in bindings if item.kind is not BindingKind.AUGMENT and self._tree.dominates(item.node, step)
        ]
        start = max(before, key=lambda item: item.order, default=None)
        return start is not None and self._is_start(start) and not self._is_part_of_batch(start, step)

    def _is_part_of_batch(self, start: Binding, step: cst.For | cst.While) -> bool:
        """Whether the loop is over the parts of a batch, for each of which the sum begins again."""
        return any(
            self._tree.within(start.node, outer.node) and (is_batch(outer.over) or outer.node in self._steps)
            for outer in self._module.fact(Loops).around(step)
        )

    def _is_start(self, binding: Binding) -> bool:
        value = unpacked(binding.value, binding.path)
        if isinstance(value, cst.Call):
            return not value.args and self._module.name_of(value.func) in ("builtins.list", "builtins.float")
        return isinstance(value, (cst.Integer, cst.Float)) or (isinstance(value, cst.List) and not value.elements)

    def _is_let_go(self, target: cst.Name, loss: cst.Name, statement: cst.CSTNode, step: cst.For | cst.While) -> bool:
        """Whether a backward pass needs the graphs, or the loop releases them."""
        uses = [use for name in (target, loss) for use in self._uses(name) if self._tree.within(use, step)]
        if any(self._method_of(use) in _RELEASING for use in uses):
            return True
        gradients = self._module.fact(Gradients)
        if any(gradients.reaches_backward(use) for use in self._uses(target)):
            return True
        return isinstance(statement, (cst.Assign, cst.AugAssign)) and not self._records(loss)

    def _records(self, loss: cst.Name) -> bool:
        """Whether adding to the sum records a graph; where only some callers disable gradients, it does in training."""
        modes = self._module.fact(GradModes)
        mode = modes.of(loss)
        if mode is GradMode.UNKNOWN:
            return modes.within(loss, self._module.function_of(loss)) is None
        return mode is GradMode.RECORDING

    def _uses(self, name: cst.Name) -> list[cst.Name]:
        scope = self._module.names.home_of(name)
        return [] if scope is None else list(self._module.names.uses_in(scope, name.value))

    def _method_of(self, use: cst.Name) -> str:
        parent = self._tree.parent(use)
        return parent.attr.value if isinstance(parent, cst.Attribute) and parent.value is use else ""
