"""The statistics of timings taken in turn: interval of their ratio, when to stop, verdict.

Pure functions over numbers, so that they can be tested on timings whose true ratio is known.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from statistics import mean, median, stdev
from typing import Literal

Verdict = Literal["confirmed", "no effect", "slower", "differs", "not measured"]

RESAMPLES = 2000
GAIN = 1.02  #: what an interval must lie above to confirm a rule
LOSS = 0.98  #: what it must lie below for "slower"
SAME = (0.95, 1.05)  #: what an interval must lie within for "no effect"

#: A ratio nearer to 1 than this needs several pairs of processes: from one process to the next, a program that has not
#: changed is faster or slower by a percent or so (memory layout, clocks, caches), for as long as the process lives.
NEAR_ONE = 1.2
PROCESS_PAIRS = 4

#: The 97.5 % quantile of Student's t distribution by degrees of freedom.
T_QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}

#: After how many samples of each side the interval is looked at; few looks, as each is a chance to stop by luck.
LOOKS = (8, 11, 15, 21, 29, 40, 55, 75)


@dataclass(frozen=True)
class Interval:
    """The ratio of two medians (before over after: above 1, after is quicker) and its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width, relative to its middle."""
        return (self.high - self.low) / (self.high + self.low)


def ratio_interval(
    before: Sequence[float],
    after: Sequence[float],
    resamples: int = RESAMPLES,
    middle: Callable[[Sequence[float]], float] = median,
) -> Interval:
    """The ratio of the medians with its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    The two series were taken in turn and are resampled in pairs: what slows the machine down for a while slows both,
    and does not widen the interval. Seeded, so that the same samples give the same interval. `middle` takes the place
    of the median.
    """
    if len(before) != len(after) or not before:
        raise ValueError("the two series must be of one length, and not empty")
    ratios = sorted(middle(drawn(before)) / middle(drawn(after)) for drawn in _resamples(len(before), resamples))
    low, high = ratios[round(0.025 * (resamples - 1))], ratios[round(0.975 * (resamples - 1))]
    return Interval(middle(before) / middle(after), low, high)


@lru_cache(maxsize=len(LOOKS))
def _resamples(length: int, count: int) -> list[Callable[[Sequence[float]], Sequence[float]]]:
    """Functions, each of which draws `length` items, with repetition, from a series of that length."""
    rng = random.Random(0)
    if length == 1:
        return [lambda series: series] * count
    return [itemgetter(*rng.choices(range(length), k=length)) for _ in range(count)]


def interval_over(runs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Interval:
    """The interval over one or several pairs of processes, each with its two series.

    One pair: the bootstrap, which knows the noise within it alone. Several: the mean of the logarithms of their ratios
    with the t interval, so that what differs from process to process counts.
    """
    if len(runs) == 1:
        return ratio_interval(*runs[0])
    logs = [math.log(median(before) / median(after)) for before, after in runs]
    middle, margin = mean(logs), T_QUANTILES[len(logs) - 1] * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle), math.exp(middle - margin), math.exp(middle + margin))


def is_near_one(interval: Interval) -> bool:
    """Whether the ratio could be confused with 1 by what differs from process to process."""
    return interval.low < NEAR_ONE and interval.high > 1 / NEAR_ONE


def pairs_needed(interval: Interval) -> int:
    """How many pairs of processes a verdict on the ratio needs."""
    return PROCESS_PAIRS if is_near_one(interval) else 1


def narrow_enough(interval: Interval) -> bool:
    """Whether more samples would tell a reader nothing new: finer where the ratio is near 1.

    It looks at the width alone, never at the verdict, which would favour one.
    """
    return interval.half_width <= (0.01 if is_near_one(interval) else 0.03)


def settled(times: Sequence[float]) -> bool:
    """Whether a warm-up is over: the last two runs took the same time within 5 %, or there were eight."""
    return len(times) >= 8 or (len(times) >= 2 and max(times[-2:]) <= 1.05 * min(times[-2:]))


def time_verdict(interval: Interval, process_pairs: int) -> tuple[Verdict, str]:
    """The verdict on a ratio of times from so many pairs of processes, and the reason if there is none."""
    if process_pairs < pairs_needed(interval):
        return "not measured", f"near 1 in {process_pairs} of {PROCESS_PAIRS} pairs of processes"
    if interval.low > GAIN:
        return "confirmed", ""
    if interval.high < LOSS:
        return "slower", ""
    if SAME[0] <= interval.low and interval.high <= SAME[1]:
        return "no effect", ""
    return "not measured", f"inconclusive: the interval is [{interval.low:.2f}, {interval.high:.2f}]"


def count_verdict(before: float, after: float) -> tuple[Verdict, str]:
    """The verdict on a count, such as host synchronizations, where less is better."""
    if after < before:
        return "confirmed", ""
    return ("no effect", "") if after == before else ("slower", "")
