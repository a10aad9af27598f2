"""A memo for answers that may need each other, in circles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, Generic, TypeVar

from torchlint.source import deadline

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")
_Found = TypeVar("_Found")

#: Questions that are asked within more other ones than this are unknown.
_MAX_DEPTH = 40
#: So many answers are looked for again because a cycle cut them short; then the first answer stays.
_MAX_FORGOTTEN = 2_000
#: The place of no question.
_NONE = 1 << 30


class _Missing(Enum):
    ANSWER = 0


_MISSING: Final = _Missing.ANSWER


class CyclicMemo(Generic[_Key, _Answer]):
    """Keeps each answer; one that a cycle cut short only until the outermost question is answered.

    Within a cycle, the question that is asked again is unknown. What was made from that, or from an answer that was,
    is provisional, as it may differ once the question is answered. The answer of the question that begins the cycle
    stays. It is known by its place among the open questions, the outermost first (as in Tarjan's algorithm for strongly
    connected components).

    Questions that need each other share one memo, with different keys: two memos do not know of each other's cycles.
    What else is kept and made from its answers is asked by `once` or `attempt`. Where an answer depends on how many
    calls or names are still followed, that number is a part of the key.
    """

    def __init__(
        self,
        unknown: _Answer,
        max_depth: int = _MAX_DEPTH,
        is_settled: Callable[[_Answer], bool] = lambda answer: False,
    ) -> None:
        """``unknown`` answers within a cycle and beyond ``max_depth``; an answer that ``is_settled`` stays."""
        self._unknown = unknown
        self._max_depth = max_depth
        self._is_settled = is_settled
        self._known: dict[Hashable, _Answer] = {}
        self._open: dict[Hashable, int] = {}  #: the questions that are being answered, each with its place
        self._depth = 0
        self._cut = _NONE  #: the outermost open question that was unknown for what is being looked for
        self._provisional: dict[Hashable, int] = {}  #: the answers that wait for an open question, with its place
        self._forgotten = 0

    def get(self, key: _Key, find: Callable[[_Key], _Answer]) -> _Answer:
        """The answer for ``key``, which ``find`` looks for unless it is known."""
        known = self._known.get(key, _MISSING)
        if known is not _MISSING:
            if self._provisional:
                self._cut = min(self._cut, self._provisional.get(key, _NONE))
            return known
        if key in self._open or self._depth > self._max_depth:
            self._cut = min(self._cut, self._open.get(key, 0))
            return self._unknown
        deadline.keep()
        self._depth += 1
        try:
            answer, waits_for = self._answer(key, lambda: find(key))
        finally:
            self._depth -= 1
        self._keep(key, answer, waits_for)
        return answer

    def once(self, key: Hashable, find: Callable[[], _Answer]) -> _Answer:
        """What ``find`` gives for something that several questions have in common, itself no question in a cycle."""
        known = self._known.get(key, _MISSING)
        if known is not _MISSING:
            self._cut = min(self._cut, self._provisional.get(key, _NONE))
            return known
        outer, self._cut = self._cut, _NONE
        answer = find()
        self._keep(key, answer, self._cut)
        self._cut = min(outer, self._cut)
        return answer

    def guard(self, key: Hashable, find: Callable[[], _Found], unknown: _Found) -> tuple[_Found, bool]:
        """What ``find`` gives, and whether it is final: it waits for no open question.

        It is not kept here. Within a cycle through ``key`` it is ``unknown``.
        """
        if key in self._open:
            self._cut = min(self._cut, self._open[key])
            return unknown, False
        found, waits_for = self._answer(key, find)
        return found, waits_for == _NONE

    def attempt(self, find: Callable[[], _Found]) -> tuple[_Found, bool]:
        """What ``find`` gives, and whether it is final: it waits for no open question."""
        outer, self._cut = self._cut, _NONE
        found = find()
        is_final = self._cut == _NONE
        self._cut = min(outer, self._cut)
        return found, is_final

    def _answer(self, key: Hashable, find: Callable[[], _Found]) -> tuple[_Found, int]:
        """What ``find`` gives for a question that is open meanwhile, and the place of the one that it waits for."""
        place, waiting = len(self._open), len(self._provisional)
        outer, self._cut = self._cut, _NONE
        self._open[key] = place
        try:
            found = find()
        finally:
            del self._open[key]
            cut, self._cut = self._cut, outer
            if place == 0:
                self._forget()  # the answers within cycles: they are looked for again
        if place and cut == place:  # it begins a cycle; the answers within it wait until no question is open: at once,
            self._provisional |= dict.fromkeys(list(self._provisional)[waiting:], 0)  # they would be found many times
        waits_for = cut if cut < place else _NONE
        self._cut = min(outer, waits_for)
        return found, waits_for

    def _keep(self, key: Hashable, answer: _Answer, waits_for: int) -> None:
        self._known[key] = answer
        if waits_for != _NONE and not self._is_settled(answer):
            self._provisional[key] = waits_for

    def _forget(self) -> None:
        """Drop the provisional answers; up to a limit, or large cycles take too long."""
        if self._forgotten < _MAX_FORGOTTEN:
            self._forgotten += len(self._provisional)
            for key in self._provisional:
                self._known.pop(key, None)
        self._provisional.clear()
