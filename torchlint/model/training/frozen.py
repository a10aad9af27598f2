"""Networks whose parameters are frozen."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.training.loops import Loops
from torchlint.model.training.parameters import Parameters

#: Functions that switch the parameters of a network off or on, and those that only switch them off.
_SWITCHES = frozenset({"requires_grad", "set_requires_grad", "toggle_grad", "toggle_requires_grad", "set_grad"})
_FREEZES = frozenset({"freeze", "freeze_model", "freeze_network", "freeze_parameters", "freeze_params"})


class Frozen:
    """Answers for one forest."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def has(self, model: cst.BaseExpression) -> bool:
        """Whether the parameters of ``model`` are switched off, or it has none, so that it records nothing.

        If they are switched on again anywhere, only the function that switches them off counts.
        """
        if self._module.value(model).definition in self._frozen_classes:
            return True
        if self._module.fact(Parameters).has_none(model):
            return True
        off, on = self._switched
        thawed = {last_name(network) for network in on}
        function_of = self._module.function_of
        return any(
            (last_name(network) not in thawed or function_of(network) is function_of(model))
            and self._may_be(model, network)
            for network in off
        )

    def _may_be(self, model: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether two expressions may be the same network: by their names, if it is not known what made them."""
        is_named_so = last_name(model) != "" and last_name(model) == last_name(other)
        if not is_named_so and not isinstance(other, cst.Name):
            return False
        made = [self._module.value(node).origins for node in (model, other)]
        return not made[0].isdisjoint(made[1]) if all(made) else is_named_so

    @cached_property
    def _frozen_classes(self) -> frozenset[cst.CSTNode]:
        """The classes whose constructors switch off all parameters: ``self.requires_grad_(False)``."""
        module = self._module
        found: set[cst.CSTNode] = set()
        for network in self._switched[0]:
            method = module.function_of(network)
            owner = module.tree.class_of(method) if method is not None else None
            if method is None or owner is None or dotted_name(network) != "self":
                continue
            init = module.definitions.method(owner, "__init__")
            called = module.tree.calls_in(init.body) if init is not None else ()
            if init is method or any(dotted_name(call.func) == f"self.{method.name.value}" for call in called):
                found.add(owner)
        return frozenset(found)

    @cached_property
    def _switched(self) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """The networks whose parameters are all switched off, and those whose parameters may be switched on."""
        module = self._module
        off: list[cst.BaseExpression] = []
        on: list[cst.BaseExpression] = []
        for call in module.methods("requires_grad_"):
            if isinstance(call.func, cst.Attribute):
                is_off = bool(call.args) and dotted_name(call.args[0].value) == "False"
                (off if is_off else on).append(call.func.value)
        for call in module.tree.calls_named(*_SWITCHES, *_FREEZES):
            (off if _switches_off(call) else on).extend(_networks_given(call))
            off.extend(self._frozen_by_method(call))
        for target, value, statement in module.tree.stores:
            if isinstance(target, cst.Attribute) and self._freezes_table(target, value):
                off.append(target.value)
            if not (isinstance(target, cst.Attribute) and target.attr.value == "requires_grad") or value is None:
                continue
            switched = off if dotted_name(value) == "False" else on
            for loop in module.fact(Loops).around(statement):
                if isinstance(loop.node, cst.For) and not self._is_of_some(statement, loop.node):
                    for call in module.tree.calls_in(loop.node.iter):
                        if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters"):
                            switched.append(call.func.value)
        return off, on

    def _frozen_by_method(self, call: cst.Call) -> list[cst.BaseExpression]:
        """``teacher`` of ``teacher.freeze()``, and of ``teacher = student.copy().freeze()``."""
        func, statement = call.func, self._module.tree.parent(call)
        if not isinstance(func, cst.Attribute) or func.attr.value != "freeze" or call.args:
            return []
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        return [func.value, *(item.target for item in targets)] if dotted_name(func.value) != "self" else []

    def _freezes_table(self, target: cst.Attribute, value: cst.BaseExpression | None) -> bool:
        """``embedding.weight = nn.Parameter(table, requires_grad=False)``: an embedding has no other parameters."""
        if target.attr.value != "weight" or not isinstance(value, cst.Call):
            return False
        is_off = any(
            item.keyword is not None and item.keyword.value == "requires_grad" and dotted_name(item.value) == "False"
            for item in value.args
        )
        return is_off and self._module.value(target.value).name.endswith("Embedding")

    def _is_of_some(self, statement: cst.CSTNode, loop: cst.For) -> bool:
        """Whether a condition in a loop selects parameters: ``if "encoder" in name:``."""
        return any(isinstance(above, cst.If) for above, _ in climb(self._module.tree, statement, loop))


def _switches_off(call: cst.Call) -> bool:
    """Whether a call of a function that switches parameters passes ``False``, or can do nothing else."""
    return last_name(call.func) in _FREEZES or any(dotted_name(item.value) == "False" for item in call.args)


def _networks_given(call: cst.Call) -> list[cst.BaseExpression]:
    """The networks in the first argument of a call, one or several in a list."""
    first = call.args[0].value if call.args else None
    if isinstance(first, (cst.List, cst.Tuple)):
        return [element.value for element in first.elements]
    return [first] if isinstance(first, (cst.Name, cst.Attribute)) else []


def freezes(module: Module, evaluated: cst.CSTNode) -> bool:
    """Whether ``evaluated`` goes on to freeze the network: ``.eval().requires_grad_(False)``."""
    above = module.tree.parent(evaluated)
    return isinstance(above, cst.Attribute) and above.attr.value == "requires_grad_"
