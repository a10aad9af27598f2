"""Networks whose parameters are frozen."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.training.loops import Loops


class Frozen:
    """Answers for one forest."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def has(self, model: cst.BaseExpression) -> bool:
        """Whether the parameters of ``model`` are switched off, so that it records nothing."""
        last = last_name(model)
        return bool(last) and last in self._frozen

    @cached_property
    def _frozen(self) -> set[str]:
        tree = self._module.tree
        found: set[str] = set()
        for call in self._module.methods("requires_grad_"):
            if call.args and dotted_name(call.args[0].value) == "False" and isinstance(call.func, cst.Attribute):
                found.add(last_name(call.func.value))
        for target, value, statement in tree.stores:
            if not (isinstance(target, cst.Attribute) and target.attr.value == "requires_grad"):
                continue
            if value is None or dotted_name(value) != "False":
                continue
            for loop in self._module.fact(Loops).around(statement):
                if isinstance(loop.node, cst.For):
                    for call in tree.calls_in(loop.node.iter):
                        if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters"):
                            found.add(last_name(call.func.value))
        return found


def freezes(module: Module, evaluated: cst.CSTNode) -> bool:
    """Whether ``evaluated`` goes on to freeze the network: ``.eval().requires_grad_(False)``."""
    above = module.tree.parent(evaluated)
    return isinstance(above, cst.Attribute) and above.attr.value == "requires_grad_"
