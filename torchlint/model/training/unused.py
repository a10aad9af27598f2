"""Functions, classes and methods of a program that nothing in its project uses."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import last_name

#: Classes of libraries that call few methods of derived classes, and these methods.
_BASES = frozenset({"torch.nn.Module", "torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
_CALLED_BY_THEM = frozenset({"forward", "extra_repr", "reset_parameters", "get_extra_state", "set_extra_state"})
#: Decorators that do not register the method that they decorate.
_PLAIN_DECORATORS = frozenset("staticmethod classmethod property no_grad inference_mode enable_grad autocast".split())


class Unused:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, bool] = {}

    def has(self, offset: int) -> bool:
        """Whether the character at ``offset``, of this file, is in an unused function or class of its top level.

        Or in a method that nothing calls.
        """
        statement = self._definition_at(offset, self._module.positions.statements_at(offset))
        if statement is None:
            return False
        if not self._is_used(statement.name.value):
            return True
        method = self._definition_at(offset, statement.body.body) if isinstance(statement, cst.ClassDef) else None
        return isinstance(method, cst.FunctionDef) and not self._is_called(method)

    def _definition_at(self, offset: int, statements: Iterable[cst.CSTNode]) -> cst.FunctionDef | cst.ClassDef | None:
        for statement in statements:
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                start, end = self._module.span(statement)
                if start <= offset < end:
                    return statement
        return None

    def _is_used(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._module.is_used(name)
        return self._known[name]

    def _is_called(self, method: cst.FunctionDef) -> bool:
        """Whether something may call a method: by its name, or a library that knows its class."""
        owner = self._module.tree.class_of(method)
        decorators = (last_name(self._module.callee(item.decorator)) for item in method.decorators)
        return (
            owner is None
            or method.name.value in _CALLED_BY_THEM
            or not _PLAIN_DECORATORS.issuperset(decorators)
            or not self._module.definitions.is_known_whole(owner, _BASES)
            or self._module.is_called(method.name.value)
        )
