"""Meters: objects that are given values (``top1.update(accuracy)``) and compute a mean of them (``top1.avg``)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import dotted_name
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
