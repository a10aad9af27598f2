"""Two sides in turns, A B B A, over the same number of steps; what differs between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from time import monotonic
from typing import Literal

from torchlint.measure.intervals import SAME, Interval, ratio_interval
from torchlint.trial.side import Block, EndError, ScriptError, Side

MOST_BLOCKS = 50  #: into which the steps are divided: the more, the less what else the machine does matters
LEAST_BLOCKS = 5  #: fewer have no interval
SHORTEST_BLOCK_S = 0.2  #: within which the start of a turn does not count
#: What the interval must be above or below for a difference: from one process to the next, the same script is up to two
#: percent faster or slower as long as it runs, and each side is one process.
NOTICEABLE = 1.03

Outcome = Literal["faster", "slower", "no difference", "inconclusive"]


@dataclass(frozen=True)
class Totals:
    """One side over all its blocks."""

    steps: int
    seconds: float
    waited: float
    peak_memory: int
    synchronizations: float  #: per step
    losses: Sequence[float]

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


@dataclass(frozen=True)
class Comparison:
    """Two sides after their turns."""

    before: Totals
    after: Totals
    interval: Interval  #: of the time before over the time after
    has_ended: bool  #: whether a script ended before it had made all steps

    @property
    def outcome(self) -> Outcome:
        """What the interval says about the second side."""
        if self.interval.low > NOTICEABLE:
            return "faster"
        if self.interval.high < 1 / NOTICEABLE:
            return "slower"
        return "no difference" if SAME[0] < self.interval.low and self.interval.high < SAME[1] else "inconclusive"


def compare(
    before: Side, after: Side, steps: int, warmup: int, deadline: float, progress: Callable[[int, int], None]
) -> Comparison:
    """Let two started sides make their steps. Raises ScriptError, also if there are too few steps.

    `progress` is called with the number of blocks that are done, and of all.
    """
    sides = (before, after)
    counted = [_warm_up(side, warmup) for side in sides]
    block = _block_size(steps, max(side.seconds / side.steps for side in counted))
    blocks: tuple[list[Block], list[Block]] = ([], [])
    has_ended = False
    planned = max(LEAST_BLOCKS, steps // block)
    try:
        while len(blocks[0]) < planned and monotonic() < deadline:
            for index in (0, 1) if len(blocks[0]) % 2 == 0 else (1, 0):
                blocks[index].append(sides[index].run(block))
            progress(len(blocks[0]), planned)
    except EndError:
        has_ended = True
    pairs = list(zip(*blocks, strict=False))  # of the last block, one side may be missing
    if len(pairs) < LEAST_BLOCKS:
        made = f"after about {warmup + block * len(pairs)} steps"
        if has_ended:
            raise ScriptError(f"the script ends {made}: try fewer, such as --warmup 2 --steps {LEAST_BLOCKS}")
        raise ScriptError(f"the budget is used up {made}: try fewer --steps, or a larger --budget")
    seconds = [[one[side].seconds for one in pairs] for side in (0, 1)]
    totals = [_totals([one[side] for one in pairs], counted[side]) for side in (0, 1)]
    return Comparison(totals[0], totals[1], ratio_interval(seconds[0], seconds[1], middle=fmean), has_ended)


def _block_size(steps: int, seconds: float) -> int:
    """The number of steps in a block, of which each takes so many seconds."""
    long_enough = math.ceil(SHORTEST_BLOCK_S / max(seconds, 1e-6))
    return max(1, min(max(math.ceil(steps / MOST_BLOCKS), long_enough), steps // (2 * LEAST_BLOCKS)))


def _warm_up(side: Side, steps: int) -> Block:
    """The first steps, and one more in which host synchronizations are counted."""
    try:
        if steps:
            side.run(steps)
        return side.run(1, count=True)
    except EndError:
        raise ScriptError(f"{side.name} ended within the {steps} steps of the warm-up; see --warmup") from None


def _totals(blocks: Sequence[Block], counted: Block) -> Totals:
    return Totals(
        sum(block.steps for block in blocks),
        sum(block.seconds for block in blocks),
        sum(block.waited for block in blocks),
        max(block.peak_memory for block in blocks),
        counted.synchronizations / counted.steps,
        tuple(loss for block in blocks for loss in block.losses),
    )


@dataclass(frozen=True)
class Losses:
    """How the loss curves of two sides compare."""

    before: float  #: the mean over the second half
    after: float
    verdict: Literal["the same", "agree", "differ"]


#: The relative difference of the mean losses that is accepted: another order of the data or rounding makes as much.
TOLERANCE = 0.05


def compare_losses(before: Sequence[float], after: Sequence[float]) -> Losses | None:
    """Whether two loss curves agree, within a tolerance or what they vary from step to step; None without losses."""
    length = min(len(before), len(after))
    if length == 0:
        return None
    ours, theirs = before[:length], after[:length]
    scale = max(map(abs, (*ours, *theirs))) or 1.0
    gaps = [(b - a) / scale for a, b in zip(ours, theirs, strict=True)]
    last = gaps[length // 2 :]
    means = fmean(ours[length // 2 :]), fmean(theirs[length // 2 :])
    if max(map(abs, gaps)) <= 1e-4:
        return Losses(*means, "the same")
    noise = 2 * stdev(last) / len(last) ** 0.5 if len(last) > 1 else 0.0
    return Losses(*means, "agree" if abs(fmean(last)) <= max(TOLERANCE, noise) else "differ")
