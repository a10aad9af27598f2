"""How long an analysis may take: asked again and again within it, so that it ends wherever it is.

A process analyses one file at a time, if need be in a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

#: When to look at the time again, by the clock on the wall, which is quick to read.
_end = float("inf")
#: When the time is over, in CPU seconds of the process: a busy machine must not change what is found.
_cpu_end = float("inf")


class DeadlineError(Exception):
    """The time is over."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let `keep` raise DeadlineError after so much CPU time of the process, until the block ends."""
    global _end, _cpu_end
    _end, _cpu_end = time.monotonic() + seconds, time.process_time() + seconds
    try:
        yield
    finally:
        _end = _cpu_end = float("inf")


def keep() -> None:
    """Raise DeadlineError if the time is over."""
    global _end
    if time.monotonic() > _end:
        left = _cpu_end - time.process_time()
        if left <= 0:
            raise DeadlineError
        _end = time.monotonic() + left
