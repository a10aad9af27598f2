"""How long an analysis may take: asked again and again within it, so that it ends wherever it is.

A process analyses one file at a time, if need be in a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_end = float("inf")


class DeadlineError(Exception):
    """The time is over."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let `keep` raise DeadlineError after this time, until the block ends."""
    global _end
    _end = time.monotonic() + seconds
    try:
        yield
    finally:
        _end = float("inf")


def keep() -> None:
    """Raise DeadlineError if the time is over."""
    if time.monotonic() > _end:
        raise DeadlineError
