"""Norms of gradients that are read on the host parameter by parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name
from torchlint.model.training.step_places import StepPlace, StepPlaces

_PARAMETERS = re.compile(r"parameters\(|param(eter)?s|weights", re.IGNORECASE)
#: What a function is called that a step runs, where no call of it is seen.
_NAMES = re.compile(r"grad\w*norm|norm\w*grad|clip|optimize|step", re.IGNORECASE)
_NORMS = frozenset({"norm", "vector_norm", "sum", "square", "pow"})
#: Functions that make a tensor on the host of a list, whose items are read one by one.
_MAKING = frozenset({"torch.tensor", "torch.Tensor", "torch.FloatTensor"})


@dataclass(frozen=True, eq=False)
class NormRead:
    """``p.grad.norm().item()`` in a loop over parameters, whose results are added up or collected."""

    call: cst.Call
    loop: cst.CSTNode
    step: StepPlace | None  #: None if no call of its function is seen


class NormReads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[NormRead]:
        """The reads of the file that run at every training step, in order."""
        for call in self._tree.calls_in(self._module.root):
            loop = self._repeated(call) or self._listed(call)
            if loop is None:
                continue
            places = self._module.fact(StepPlaces)
            step = places.of(loop, places.usually, trained=True)
            if step is not None or self._is_called_elsewhere(loop):
                yield NormRead(call, loop, step)

    def _repeated(self, call: cst.Call) -> cst.For | None:
        """The loop over parameters in which ``call`` reads a norm."""
        norm = self._read_by(call)
        if norm is None or not self._is_norm_of_gradient(norm):
            return None
        return self._loop(call) if self._is_total(call) else None

    def _listed(self, call: cst.Call) -> cst.BaseComp | None:
        """The comprehension of ``torch.tensor([p.grad.norm() ** 2 for p in parameters])``."""
        made = call.args[0].value if call.args else None
        if not isinstance(made, cst.ListComp) or self._module.name_of(call.func) not in _MAKING:
            return None
        norm = made.elt.left if isinstance(made.elt, cst.BinaryOperation) else made.elt
        is_over = _PARAMETERS.search(self._module.code(made.for_in.iter)) is not None
        return made if is_over and isinstance(norm, cst.Call) and self._is_norm(norm) else None

    def _read_by(self, call: cst.Call) -> cst.BaseExpression | None:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and not call.args:
            return call.func.value
        is_float = self._module.name_of(call.func) == "builtins.float" and len(call.args) == 1
        return call.args[0].value if is_float else None

    def _is_norm_of_gradient(self, node: cst.BaseExpression) -> bool:
        """``p.grad.data.norm(2)``, ``torch.norm(p.grad)``, ``(p.grad ** 2).sum()``, or a name for one."""
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            return len(reached) == 1 and isinstance(reached[0].value, cst.Call) and self._is_norm(reached[0].value)
        return isinstance(node, cst.Call) and self._is_norm(node)

    def _is_norm(self, call: cst.Call) -> bool:
        return called_name(call) in _NORMS and any(
            isinstance(node, cst.Attribute) and node.attr.value == "grad" for node in self._tree.nodes_in(call)
        )

    def _loop(self, call: cst.Call) -> cst.For | None:
        """The loop over parameters around ``call``."""
        for above, child in climb(self._tree, call):
            if isinstance(above, cst.For) and child is above.body:
                return above if _PARAMETERS.search(self._module.code(above.iter)) else None
            if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.While)):
                return None
        return None

    def _is_total(self, call: cst.Call) -> bool:
        """Whether the number is added up or put in a list; with a name for each, it is a record of layers."""
        statement = self._tree.statement_of(call)
        if isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1:
            return any(map(self._is_collected, self._uses_of(statement)))
        return self._is_collected(call)

    def _uses_of(self, statement: cst.Assign) -> list[cst.Name]:
        """The uses of the one variable that a statement assigns."""
        target = statement.targets[0].target
        if not isinstance(target, cst.Name):
            return []
        return [
            use
            for use in self._tree.names.get(target.value, ())
            if any(binding.node is statement for binding in self._module.values.reaching.of(use))
        ]

    def _is_collected(self, number: cst.BaseExpression) -> bool:
        """``total += number ** 2``, ``norms.append(number)``, ``meter.update(number)``."""
        statement = self._tree.statement_of(number)
        if isinstance(statement, cst.AugAssign):
            return isinstance(statement.target, (cst.Name, cst.Attribute))
        made = statement.value if isinstance(statement, cst.Expr) else None
        return (
            isinstance(made, cst.Call)
            and called_name(made) in ("append", "update")
            and len(made.args) > 0
            and made.args[0].value is number
        )

    def _is_called_elsewhere(self, loop: cst.CSTNode) -> bool:
        function = self._module.function_of(loop)
        if function is None or self._module.fact(Dispatch).callers(function):
            return False
        return _NAMES.search(function.name.value) is not None
