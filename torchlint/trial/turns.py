"""Two sides in turns, A B B A, over the same number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from torchlint.trial.side import Block, EndError, ScriptError, Side

MOST_BLOCKS = 50  #: into which the steps are divided: the more, the less what else the machine does matters
LEAST_BLOCKS = 5  #: fewer have no interval
SHORTEST_BLOCK_S = 0.2  #: within which the start of a turn does not count


@dataclass(frozen=True)
class Turns:
    """What both sides did, block by block: `before[i]` and `after[i]` are the same steps."""

    before: tuple[Block, ...]
    after: tuple[Block, ...]
    counted: tuple[Block, Block]  #: one step of each side, in which host synchronizations were counted
    end: str = ""  #: why there are fewer steps than planned


def take_turns(
    before: Side, after: Side, steps: int, warmup: int, deadline: float, progress: Callable[[int, int], None]
) -> Turns:
    """Let two started sides make their steps. Raises ScriptError, also if there are too few steps.

    `progress` is called with the number of blocks that are done, and of all.
    """
    sides = (before, after)
    counted = (_warm_up(before, warmup), _warm_up(after, warmup))
    block = _block_size(steps, max(one.seconds for one in counted))
    planned = max(LEAST_BLOCKS, steps // block)
    blocks: tuple[list[Block], list[Block]] = ([], [])
    end = ""
    try:
        while len(blocks[0]) < planned and monotonic() < deadline:
            for index in (0, 1) if len(blocks[0]) % 2 == 0 else (1, 0):
                blocks[index].append(sides[index].run(block))
            progress(len(blocks[0]), planned)
    except EndError:
        end = "the script ended"
    count = min(map(len, blocks))  # of the last block, one side may be missing
    if count < planned and not end:
        end = "the budget was used up"
    if count < LEAST_BLOCKS:
        hint = "a larger --budget or fewer --steps" if "budget" in end else f"--warmup 2 --steps {LEAST_BLOCKS}"
        raise ScriptError(f"{end} after too few steps: try {hint}")
    return Turns(tuple(blocks[0][:count]), tuple(blocks[1][:count]), counted, end)


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
