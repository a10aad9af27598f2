"""Times of a profile: what intervals have in common, compared with sets of microseconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchlint.profile.times import Times

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda one: (one[0], one[0] + one[1])))


def units(intervals: list[tuple[int, int]]) -> set[int]:
    """The microseconds that intervals cover."""
    return {unit for start, end in intervals for unit in range(start, end)}


@given(INTERVALS, INTERVALS)
def test_lengths_are_those_of_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = Times(one), Times(other)
    assert left.length == len(units(one))
    assert left.common(right) == right.common(left) == len(units(one) & units(other))
    assert left.intersection(right).length == len(units(one) & units(other))


@given(INTERVALS, st.integers(0, 40), st.integers(1, 10))
def test_parts_are_those_of_sets(intervals: list[tuple[int, int]], start: int, length: int) -> None:
    part = set(range(start, start + length))
    times = Times(intervals)
    assert times.within(start, start + length) == len(units(intervals) & part)
    assert times.contains(start, start + length) == (part <= units(intervals))
