"""Code that runs on the way to an exception: at most once, so that its speed does not matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import HANDLERS

_BRANCHES = (cst.If, cst.Else, *HANDLERS)
#: Where a piece begins, and the function or class of the class in it.
_Part: TypeAlias = tuple[int, cst.CSTNode | None]


class Failures(ForestFact):
    """Answers for one forest. Only those near a place are asked where they are."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def has(self, offset: int) -> bool:
        """Whether the code at an offset ends in an error.

        That is a ``raise`` of an error with the statements before it in its branch, and the message of an ``assert``.
        """
        part = self._part_at(offset)
        raises, messages = self._raises.get(part, []), self._messages.get(part, [])
        behind = raises[bisect_right(raises, offset, key=self._end) :]
        if any(self._start_of_branch(item) <= offset for item in behind):
            return True
        first = bisect_right(messages, offset, key=self._end)
        return first < len(messages) and self._forest.span(messages[first])[0] <= offset

    def _part_at(self, offset: int) -> _Part:
        """The part of the text that contains an offset."""
        definitions = list(self._forest.positions.definitions_at(offset))
        return self._forest.positions.piece_start(offset), definitions[1] if len(definitions) > 1 else None

    def _end(self, node: cst.CSTNode) -> int:
        return self._forest.span(node)[1]

    @cached_property
    def _raises(self) -> dict[_Part, list[cst.CSTNode]]:
        """The statements that raise an error, by the part that they are in; in order."""
        return self._by_part(item for item in self._tree.of_kind(cst.Raise) if _raises_error(item))

    @cached_property
    def _messages(self) -> dict[_Part, list[cst.CSTNode]]:
        """The messages of ``assert``, by the part that they are in; in order."""
        return self._by_part(item.msg for item in self._tree.of_kind(cst.Assert) if item.msg is not None)

    def _by_part(self, nodes: Iterable[cst.CSTNode]) -> dict[_Part, list[cst.CSTNode]]:
        found: dict[_Part, list[cst.CSTNode]] = {}
        for node in nodes:
            statement = self._tree.top_level(node)
            if statement is not None:
                part = self._forest.positions.start_of(statement), self._tree.class_member(node)
                found.setdefault(part, []).append(node)
        return found

    def _start_of_branch(self, statement: cst.CSTNode) -> int:
        """Where the branch begins that a ``raise`` ends, or else the statement itself."""
        line = self._tree.parent(statement)
        block = self._tree.parent(line) if line is not None else None
        is_branch = block is not None and isinstance(self._tree.parent(block), _BRANCHES)
        if isinstance(block, cst.IndentedBlock) and is_branch and ends_with(block, cst.Raise):
            first = block.body[0]
            return self._forest.span(first.body[0] if isinstance(first, cst.SimpleStatementLine) else first)[0]
        return self._forest.span(statement)[0]


def _raises_error(statement: cst.Raise) -> bool:
    """Whether it raises an error, and not a signal such as ``SystemExit`` or ``StopIteration``."""
    if statement.exc is None:
        return True
    raised = statement.exc.func if isinstance(statement.exc, cst.Call) else statement.exc
    return last_name(raised).endswith(("Error", "Exception"))
