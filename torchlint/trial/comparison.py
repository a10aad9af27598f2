"""What differs between two sides after their turns: the statistics, as functions of what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from torchlint.measure.intervals import SAME, Interval, ratio_interval
from torchlint.trial.side import Block
from torchlint.trial.turns import Turns

#: What the interval must be above or below for a difference: from one process to the next, the same script is up to two
#: percent faster or slower as long as it runs.
NOTICEABLE = 1.03

#: The relative difference of the mean losses that is accepted: another order of the data or rounding makes as much.
TOLERANCE = 0.05
IDENTICAL = 1e-4

Outcome = Literal["faster", "slower", "no difference", "inconclusive"]


@dataclass(frozen=True)
class Totals:
    """One side over all its blocks."""

    rate: float  #: steps per second
    waited: float  #: the share of the time in which the script waited for batches
    peak_memory: int
    synchronizations: int  #: of the host with the device, in a step


@dataclass(frozen=True)
class Losses:
    """How the loss curves of two sides compare."""

    before: float  #: the mean over the second half
    after: float
    verdict: Literal["the same", "agree", "differ"]


@dataclass(frozen=True)
class Comparison:
    """Two sides after their turns, in one pair of processes or in two."""

    runs: tuple[Turns, ...]

    @property
    def steps(self) -> int:
        """The steps of each side."""
        return sum(block.steps for run in self.runs for block in run.before)

    @property
    def end(self) -> str:
        """Why there are fewer steps than planned."""
        return next((run.end for run in self.runs if run.end), "")

    @property
    def interval(self) -> Interval:
        """The time before over the time after."""
        return _interval([run.before for run in self.runs], [run.after for run in self.runs])

    @property
    def outcome(self) -> Outcome:
        """Whether the second side is faster or slower: only if two pairs of processes say so."""
        found = {_outcome(_interval([run.before], [run.after])) for run in self.runs}
        first = next(iter(found))
        if len(found) > 1 or (len(self.runs) == 1 and first in ("faster", "slower")):
            return "inconclusive"
        return first

    @property
    def needs_another_run(self) -> bool:
        """Whether one more pair of processes could confirm a difference."""
        return len(self.runs) == 1 and _outcome(self.interval) in ("faster", "slower")

    @property
    def before(self) -> Totals:
        """The first side."""
        return _totals([block for run in self.runs for block in run.before], self.runs[0].counted[0])

    @property
    def after(self) -> Totals:
        """The second side."""
        return _totals([block for run in self.runs for block in run.after], self.runs[0].counted[1])

    @property
    def losses(self) -> Losses | None:
        """How the loss curves of the first pair of processes compare; None without any."""
        sides = (self.runs[0].before, self.runs[0].after)
        return compare_losses(*[[loss for block in side for loss in block.losses] for side in sides])


def _interval(before: Sequence[Sequence[Block]], after: Sequence[Sequence[Block]]) -> Interval:
    """The interval of the ratio of mean times of a step: a median would ignore the rare blocks with a validation."""
    times = [[block.seconds / block.steps for run in side for block in run] for side in (before, after)]
    return ratio_interval(times[0], times[1], middle=fmean)


def _outcome(interval: Interval) -> Outcome:
    """What an interval says about the second side."""
    if interval.low > NOTICEABLE:
        return "faster"
    if interval.high < 1 / NOTICEABLE:
        return "slower"
    return "no difference" if SAME[0] < interval.low and interval.high < SAME[1] else "inconclusive"


def _totals(blocks: Sequence[Block], counted: Block) -> Totals:
    seconds = sum(block.seconds for block in blocks)
    return Totals(
        sum(block.steps for block in blocks) / seconds,
        sum(block.waited for block in blocks) / seconds,
        max(block.peak_memory for block in blocks),
        counted.synchronizations,
    )


def compare_losses(before: Sequence[float], after: Sequence[float]) -> Losses | None:
    """Whether two loss curves agree, within a tolerance or what they vary from step to step; None without losses."""
    length = min(len(before), len(after))
    if length == 0:
        return None
    ours, theirs = before[:length], after[:length]
    finite = [abs(loss) for loss in (*ours, *theirs) if math.isfinite(loss)]
    scale = max(finite, default=0.0) or 1.0
    gaps = [_gap(a, b) / scale for a, b in zip(ours, theirs, strict=True)]
    last = gaps[length // 2 :]
    means = fmean(ours[length // 2 :]), fmean(theirs[length // 2 :])
    if all(abs(gap) <= IDENTICAL for gap in gaps):
        return Losses(*means, "the same")
    if not math.isfinite(fmean(last)):
        return Losses(*means, "differ")
    noise = 2 * stdev(last) / len(last) ** 0.5 if len(last) > 1 else 0.0
    return Losses(*means, "agree" if abs(fmean(last)) <= max(TOLERANCE, noise) else "differ")


def _gap(before: float, after: float) -> float:
    """How far two losses are apart; two that are not finite are equal."""
    return after - before if math.isfinite(before) or math.isfinite(after) else 0.0
