"""Functions and classes of a program that nothing in its project uses."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from operator import itemgetter

import libcst as cst

from torchlint.model.module import Module


class Unused:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, bool] = {}

    def has(self, offset: int) -> bool:
        """Whether the character at ``offset`` is in a function or class at the top level that nothing uses."""
        index = bisect_right(self._definitions, offset, key=itemgetter(0)) - 1
        if index < 0:
            return False
        _, end, name = self._definitions[index]
        return offset < end and not self._is_used(name)

    def _is_used(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._module.is_used(name)
        return self._known[name]

    @cached_property
    def _definitions(self) -> list[tuple[int, int, str]]:
        """Where each function or class of the top level begins and ends, and its name."""
        return [
            (*self._module.span(statement), statement.name.value)
            for statement in self._module.root.body
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef))
        ]
