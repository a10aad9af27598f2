"""Where the CPU time of an analysis goes: recorded by phase for ``--timing``, and at no cost otherwise."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Timing:
    """What was recorded of a file, or of many."""

    seconds: dict[str, float] = field(default_factory=dict)  #: of CPU, by phase, without the phases within it
    counts: Counter[str] = field(default_factory=Counter)  #: what was counted, by name

    def add(self, other: Timing) -> None:
        """Add what was recorded elsewhere."""
        for name, seconds in other.seconds.items():
            self.spend(name, seconds)
        self.counts.update(other.counts)

    def spend(self, name: str, seconds: float) -> None:
        """Add to a phase."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


class _Recorder:
    """What is being recorded."""

    def __init__(self) -> None:
        self.timing = Timing()
        self._phases = ["other"]
        self._since = time.process_time()

    def enter(self, name: str) -> None:
        self._take()
        self._phases.append(name)

    def leave(self) -> None:
        self._take()
        self._phases.pop()

    def _take(self) -> None:
        now = time.process_time()
        self.timing.spend(self._phases[-1], now - self._since)
        self._since = now


_recorder: _Recorder | None = None


@contextmanager
def recorded() -> Iterator[Timing]:
    """Record what happens in the block."""
    global _recorder
    recorder = _recorder = _Recorder()
    try:
        yield recorder.timing
    finally:
        recorder.leave()
        _recorder = None


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The block is this phase of the analysis."""
    recorder = _recorder
    if recorder is None:
        yield
        return
    recorder.enter(name)
    try:
        yield
    finally:
        recorder.leave()


def count(name: str, number: int) -> None:
    """Something happened so many times."""
    if _recorder is not None:
        _recorder.timing.counts[name] += number
