"""Meters: objects that are given values (``top1.update(accuracy)``) and compute a mean of them (``top1.avg``)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self
from torchlint.model.training.data_flow import DataFlow

from ._exits import leaves_device


class Meters:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._computed: dict[tuple[cst.Param, str], bool] = {}

    def given(self, read: cst.Attribute) -> list[cst.BaseExpression]:
        """What the function around gives the meter, of which the attribute ``read`` is computed as it is.

        Empty if the attribute is not one of a class of the program.
        """
        owner, function = dotted_name(read.value), self._module.function_of(read)
        made = self._module.value(read.value).definition
        found: list[cst.BaseExpression] = []
        for method, param in self._methods(made) if isinstance(made, cst.ClassDef) and owner is not None else ():
            if not self._is_computed(made, read.attr.value, param):
                continue
            for call in self._tree.calls_named(method.name.value):
                is_own = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == owner
                if is_own and self._module.function_of(call) is function:
                    value = self._module.definitions.argument_of(call, method, param)
                    found += [value] if value is not None else []
        return found

    def averages(self, value: cst.BaseExpression) -> bool:
        """Whether a method that is given ``value`` adds it to a sum and counts it: that of a mean of numbers.

        ``self.sum += value * n`` and ``self.count += n``, or ``self.count += 1``.
        """
        argument = self._tree.parent(value)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) and not argument.star else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return False
        methods = self._module.definitions.called(call, self._module.values)
        return bool(methods) and all(
            isinstance(method, cst.FunctionDef) and self._averages(method, call, value) for method in methods
        )

    def _averages(self, method: cst.FunctionDef, call: cst.Call, value: cst.BaseExpression) -> bool:
        """Whether ``method`` adds up what ``call`` passes as ``value``, and counts it."""
        is_added = is_counted = False
        for statement in self._tree.inside(method.body, cst.AugAssign):
            if isinstance(statement.operator, cst.AddAssign) and is_attribute_of_self(statement.target):
                factors = [self._module.names.parameter(part) for part in _factors(statement.value)]
                given = [self._module.definitions.argument_of(call, method, param) for param in factors if param]
                is_added = is_added or value in given
                is_counted = is_counted or (value not in given and (None not in factors or _is_one(statement.value)))
        return is_added and is_counted

    def _methods(self, owner: cst.ClassDef) -> Iterator[tuple[cst.FunctionDef, cst.Param]]:
        """The methods of a class, each with the parameter behind ``self``."""
        for bindings in self._tree.scopes[owner].bindings.values():
            for item in bindings:
                if isinstance(item.node, cst.FunctionDef) and len(item.node.params.params) > 1:
                    yield item.node, item.node.params.params[1]

    def _is_computed(self, owner: cst.CSTNode | None, name: str, param: cst.Param) -> bool:
        """Whether an attribute of a class is computed from a parameter, which no method copies to the host."""
        if (param, name) not in self._computed:
            search = self._module.fact(DataFlow).search(
                lambda part: isinstance(part, cst.Name) and self._is(part, param),
                lambda part: leaves_device(self._module, part),
            )
            stored = self._tree.scopes[owner].attributes.get(name, ()) if owner is not None else ()
            values = [item.node.value if isinstance(item.node, cst.AugAssign) else item.value for item in stored]
            self._computed[param, name] = any(value is not None and search.finds(value) for value in values)
        return self._computed[param, name]

    def _is(self, name: cst.Name, param: cst.Param) -> bool:
        """Whether ``name`` can only be what the parameter is given, and not ``value.item()`` of it."""
        reached = self._module.values.reaching.of(name)
        return bool(reached) and all(item.node is param for item in reached)


def _factors(node: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """``value`` and ``n`` of ``value * n``; any other expression by itself."""
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)
    return (node.left, node.right) if isinstance(node, cst.BinaryOperation) and is_product else (node,)


def _is_one(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"
