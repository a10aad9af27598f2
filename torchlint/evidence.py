"""What the validation suite measured for a rule: ``evidence.json`` in the rule pack, written by its report."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import cache

from torchlint.registry import BUILTIN_PACK


@dataclass(frozen=True)
class Evidence:
    """A rule's before/after pair, measured at one size on one device."""

    device: str
    gpu: bool
    torch: str
    date: str  #: ISO 8601
    size: str  #: of the programs, in words
    verdict: str  #: confirmed, no effect, slower, differs or not measured
    reason: str = ""  #: why there is no figure
    speedup: float | None = None  #: time before over time after
    ci_low: float | None = None  #: its 95 % interval
    ci_high: float | None = None
    change: str = ""  #: what the rule is judged by where that is not time: "deprecation warnings 9 → 0"
    stale: bool = False  #: whether the programs have changed since

    @property
    def figure(self) -> str:
        """``3.4x [3.3, 3.5]``, after what the rule is judged by where that is not time; empty if there is none."""
        if self.speedup is None or self.ci_low is None or self.ci_high is None:
            return ""
        time = f"{ratio(self.speedup)}x [{ratio(self.ci_low)}, {ratio(self.ci_high)}]"
        return f"{self.change}, time {time}" if self.change else time


def ratio(value: float) -> str:
    """Two decimals where they tell a gain from none, fewer above."""
    return f"{value:.2f}" if value < 2 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def measurements(code: str) -> tuple[Evidence, ...]:
    """All that was measured for a rule: GPUs first, and of each device the size that the verdict is of first."""
    return _evidence().get(code, ())


def evidence_for(code: str) -> Evidence | None:
    """The measurement that stands for a rule: the first device's, if it gave a figure."""
    first = next(iter(measurements(code)), None)
    return first if first is not None and first.figure else None


def summary(code: str) -> str:
    """A rule's evidence in one line: figure, device, other sizes. Empty if there is none."""
    first = evidence_for(code)
    if first is None:
        return ""
    others = [other for other in measurements(code)[1:] if other.device == first.device and other.speedup is not None]
    head = first.figure if first.verdict == "confirmed" else f"{first.verdict}, {first.figure}"
    parts = [f"{head}, {first.device}, torch {first.torch}"]
    parts += [f"{ratio(other.speedup or 0)}x for {other.size}" for other in others]
    if first.stale:
        parts.append("stale: the programs have changed since")
    return "; ".join(parts)


@cache
def _evidence() -> dict[str, tuple[Evidence, ...]]:
    pack = sys.modules.get(BUILTIN_PACK)
    for folder in getattr(pack, "__path__", ()):
        path = os.path.join(folder, "evidence.json")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return {code: tuple(Evidence(**one) for one in entries) for code, entries in json.load(file).items()}
    return {}
