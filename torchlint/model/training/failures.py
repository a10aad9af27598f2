"""Code that runs on the way to an exception: at most once, so that its speed does not matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import HANDLERS

_BRANCHES = (cst.If, cst.Else, *HANDLERS)


class Failures(ForestFact):
    """Answers for one forest. Statements are looked up by their pieces: where those begin is known."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def has(self, offset: int) -> bool:
        """Whether the code at an offset ends in an error.

        That is a ``raise`` of an error with the statements before it in its branch, and the message of an ``assert``.
        """
        start = self._forest.positions.piece_start(offset)
        raises, messages = self._raises.get(start, []), self._messages.get(start, [])
        behind = raises[bisect_right(raises, offset, key=self._end) :]
        members = (None, self._tree.class_member(behind[0])) if behind else ()
        if any(self._tree.class_member(item) in members and self._start_of_branch(item) <= offset for item in behind):
            return True
        first = bisect_right(messages, offset, key=self._end)
        return first < len(messages) and self._forest.span(messages[first])[0] <= offset

    def _end(self, node: cst.CSTNode) -> int:
        return self._forest.span(node)[1]

    @cached_property
    def _raises(self) -> dict[int, list[cst.CSTNode]]:
        """The statements that raise an error, by the beginning of their piece; in order."""
        return self._by_piece(item for item in self._tree.of_kind(cst.Raise) if _raises_error(item))

    @cached_property
    def _messages(self) -> dict[int, list[cst.CSTNode]]:
        """The messages of ``assert``, by the beginning of their piece; in order."""
        return self._by_piece(item.msg for item in self._tree.of_kind(cst.Assert) if item.msg is not None)

    def _by_piece(self, nodes: Iterable[cst.CSTNode]) -> dict[int, list[cst.CSTNode]]:
        found: dict[int, list[cst.CSTNode]] = {}
        for node in nodes:
            statement = self._tree.top_level(node)
            if statement is not None:
                found.setdefault(self._forest.positions.start_of(statement), []).append(node)
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
