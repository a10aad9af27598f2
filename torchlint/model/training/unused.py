"""Functions and classes of a program that nothing in its project uses."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module


class Unused:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, bool] = {}

    def has(self, offset: int) -> bool:
        """Whether the character at ``offset``, of this file, is in an unused function or class of its top level."""
        for statement in self._module.positions.statements_at(offset):
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                start, end = self._module.span(statement)
                if start <= offset < end:
                    return not self._is_used(statement.name.value)
        return False

    def _is_used(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._module.is_used(name)
        return self._known[name]
