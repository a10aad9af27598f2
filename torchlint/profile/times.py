"""Times of a trace, in microseconds: unions of intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

#: Start and end.
Interval = tuple[float, float]


class Times:
    """A union of intervals, of which parts are measured."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self.intervals: list[Interval] = []  #: sorted; they do not overlap
        for start, end in sorted(intervals):
            if self.intervals and start <= self.intervals[-1][1]:
                self.intervals[-1] = self.intervals[-1][0], max(end, self.intervals[-1][1])
            else:
                self.intervals.append((start, end))
        self._starts = [start for start, _ in self.intervals]
        self._sums = [0.0, *accumulate(end - start for start, end in self.intervals)]

    @property
    def length(self) -> float:
        """How long all of it takes."""
        return self._sums[-1]

    def within(self, start: float, end: float) -> float:
        """How much of it is between two times."""
        return max(self._until(end) - self._until(start), 0.0)

    def contains(self, start: float, end: float) -> bool:
        """Whether all that is between two times is in it."""
        index = bisect_right(self._starts, start)
        return index > 0 and end <= self.intervals[index - 1][1]

    def common(self, other: Times) -> float:
        """How much of it is in others as well."""
        if len(self.intervals) > len(other.intervals):
            return other.common(self)
        return sum(other.within(start, end) for start, end in self.intervals)

    def intersection(self, other: Times) -> Times:
        """What is in both."""
        found = []
        for start, end in self.intervals:
            index = max(bisect_right(other._starts, start) - 1, 0)
            while index < len(other.intervals) and other.intervals[index][0] < end:
                low, high = other.intervals[index]
                if min(end, high) > max(start, low):
                    found.append((max(start, low), min(end, high)))
                index += 1
        return Times(found)

    def _until(self, time: float) -> float:
        index = bisect_right(self._starts, time)
        if not index:
            return 0.0
        start, end = self.intervals[index - 1]
        return self._sums[index - 1] + min(time, end) - start
