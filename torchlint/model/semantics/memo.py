"""A memo for answers that may need each other, in circles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from torchlint.source import deadline

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")
_Found = TypeVar("_Found")

#: So many answers are looked for again because a cycle cut them short; then the first answer stays.
_MAX_FORGOTTEN = 20_000


class CyclicMemo(Generic[_Key, _Answer]):
    """Keeps each answer; one that a cycle cut short only until the outermost question is answered."""

    def __init__(
        self, unknown: _Answer, max_depth: int, is_settled: Callable[[_Answer], bool] = lambda answer: False
    ) -> None:
        """``unknown`` answers within a cycle and beyond ``max_depth``; an answer that ``is_settled`` stays."""
        self._unknown = unknown
        self._max_depth = max_depth
        self._is_settled = is_settled
        self._known: dict[_Key, _Answer] = {}
        self._running: set[Hashable] = set()
        self._depth = 0
        self._is_cut = False  #: whether a cycle cut short what is being looked for
        self._provisional: dict[_Key, None] = {}  #: keys of answers that a cycle cut short
        self._forgotten = 0

    def get(self, key: _Key, find: Callable[[_Key], _Answer]) -> _Answer:
        """The answer for ``key``, which ``find`` looks for unless it is known."""
        known = self._known.get(key)
        if known is not None:
            if self._provisional and key in self._provisional:
                self._is_cut = True  # so is what it is needed for
            return known
        if key in self._running or self._depth > self._max_depth:
            self._is_cut = True
            return self._unknown
        deadline.keep()
        outer, self._is_cut = self._is_cut, False
        self._running.add(key)
        self._depth += 1
        try:
            answer = find(key)
        finally:
            self._depth -= 1
            self._running.discard(key)
        self._known[key] = answer
        if not self._running:
            if self._provisional:
                self._forget_provisional()
        elif self._is_cut and not self._is_settled(answer):
            self._provisional[key] = None
        self._is_cut = (outer or self._is_cut) and bool(self._running)
        return answer

    def guard(self, key: Hashable, find: Callable[[], _Found], unknown: _Found) -> tuple[_Found, bool]:
        """What ``find`` gives, and whether it is final: no cycle through an open question cut it short.

        It is not kept here. Within a cycle through ``key`` it is ``unknown``.
        """
        if key in self._running:
            self._is_cut = True
            return unknown, False
        outer, self._is_cut = self._is_cut, False
        self._running.add(key)
        try:
            found = find()
        finally:
            self._running.discard(key)
        is_final = not self._is_cut or not self._running
        if not self._running and self._provisional:
            self._forget_provisional()
        self._is_cut = (outer or self._is_cut) and bool(self._running)
        return found, is_final

    def attempt(self, find: Callable[[], _Found]) -> tuple[_Found, bool]:
        """What ``find`` gives, and whether it is final: no cycle cut short an answer that it may have used."""
        outer, self._is_cut = self._is_cut, False
        found = find()
        is_final = not self._is_cut and not self._provisional
        self._is_cut = outer or self._is_cut
        return found, is_final

    def _forget_provisional(self) -> None:
        """Drop the answers that a cycle cut short; up to a limit, or it never ends."""
        if self._forgotten < _MAX_FORGOTTEN:
            self._forgotten += len(self._provisional)
            for key in self._provisional:
                self._known.pop(key, None)
        self._provisional.clear()
