"""The statistics of two series of timings taken in turn: interval of their ratio, when to stop, verdict.

Pure functions over numbers, so that they can be tested on timings whose true ratio is known.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Verdict = Literal["confirmed", "no effect", "slower", "differs", "not measured"]

RESAMPLES = 2000
GAIN = 1.02  #: what an interval must lie above to confirm a rule
LOSS = 0.98  #: what it must lie below for "slower"
#: An interval that is wider than this (half its width over its middle) cannot deny a gain.
TOO_WIDE = 0.05

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


def ratio_interval(before: Sequence[float], after: Sequence[float], resamples: int = RESAMPLES) -> Interval:
    """The ratio of the medians with its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    The two series were taken in turn and are resampled in pairs: what slows the machine down for a while slows both,
    and does not widen the interval. Seeded, so that the same samples give the same interval.
    """
    if len(before) != len(after) or not before:
        raise ValueError("the two series must be of one length, and not empty")
    rng = random.Random(0)
    pairs = range(len(before))
    ratios = []
    for _ in range(resamples):
        drawn = rng.choices(pairs, k=len(before))
        ratios.append(median([before[i] for i in drawn]) / median([after[i] for i in drawn]))
    ratios.sort()
    low, high = ratios[round(0.025 * (resamples - 1))], ratios[round(0.975 * (resamples - 1))]
    return Interval(median(before) / median(after), low, high)


def narrow_enough(interval: Interval) -> bool:
    """Whether more samples would tell a reader nothing new: finer where the ratio is near 1.

    It looks at the width alone, never at the verdict, which would favour one.
    """
    near_one = interval.low < 1.2 and interval.high > 0.8
    return interval.half_width <= (0.01 if near_one else 0.03)


def settled(times: Sequence[float]) -> bool:
    """Whether a warm-up is over: the last three runs took the same time within 5 %, or there were ten."""
    if len(times) >= 10:
        return True
    last = times[-3:]
    return len(last) == 3 and max(last) <= 1.05 * min(last)


def time_verdict(interval: Interval) -> tuple[Verdict, str]:
    """The verdict on a ratio of times, and why where it needs a word."""
    if interval.low > GAIN:
        return "confirmed", ""
    if interval.high < LOSS:
        return "slower", ""
    if interval.half_width > TOO_WIDE:
        return "not measured", f"too noisy: the interval is [{interval.low:.2f}, {interval.high:.2f}]"
    return "no effect", ""


def count_verdict(before: float, after: float) -> tuple[Verdict, str]:
    """The verdict on a count, such as host synchronizations, of which less is better."""
    if after < before:
        return "confirmed", ""
    return ("no effect", "") if after == before else ("slower", "")
