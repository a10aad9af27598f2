"""Calls that compile a network together with its `DistributedDataParallel` wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"


@dataclass(frozen=True, eq=False)
class CompiledWrapper:
    """A call that compiles a wrapper."""

    call: cst.Call
    wrapper: cst.Call


class CompiledWrappers:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def all(self) -> Iterator[CompiledWrapper]:
        """The calls of the file, in order."""
        for node in self._tree.calls_in(self._module.root):
            compiled = self._compiled(node)
            wrapper = self._wrapper(compiled, node) if compiled is not None else None
            if wrapper is not None:
                yield CompiledWrapper(node, wrapper)

    def _compiled(self, node: cst.Call) -> cst.BaseExpression | None:
        """What ``torch.compile(model)`` or ``model.compile()`` compiles."""
        if self._module.name_of(node.func) == "torch.compile":
            given = self._module.call(node, "torch.compile").argument("model").node
            return given.value if given is not None else None
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile":
            return node.func.value if self._module.name_of(node.func) is None else None
        return None

    def _wrapper(self, compiled: cst.BaseExpression, at: cst.Call) -> cst.Call | None:
        """The call that wraps what is compiled."""
        if isinstance(compiled, cst.Call):
            return compiled if self._module.name_of(compiled.func) == _WRAPPER else None
        values: list[cst.BaseExpression | None] = []
        if isinstance(compiled, cst.Name):
            bound = self._module.values.reaching.of(compiled)
            values = [item.value for item in bound if item.kind is BindingKind.ASSIGN and not item.path]
        elif isinstance(compiled, cst.Attribute):
            values = self._last_stored(compiled, at)
        for value in values:
            if (
                isinstance(value, cst.Call)
                and self._module.name_of(value.func) == _WRAPPER
                and self._is_before(value, at)
            ):
                return value
        return None

    def _is_before(self, value: cst.Call, at: cst.Call) -> bool:
        same = self._module.function_of(value) is self._module.function_of(at)
        return same and self._tree.index(value) < self._tree.index(at) and not self._tree.exclusive(value, at)

    def _last_stored(self, compiled: cst.Attribute, at: cst.Call) -> list[cst.BaseExpression | None]:
        """What an attribute is set to by the last assignment before ``at`` in its function."""
        text = dotted_name(compiled)
        function = self._module.function_of(at)
        stored = [
            value
            for target, value, statement in self._tree.stores
            if text is not None
            and dotted_name(target) == text
            and self._module.function_of(statement) is function
            and self._tree.index(statement) < self._tree.index(self._tree.statement_of(at))
        ]
        return stored[-1:]
