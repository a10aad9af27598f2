"""The measurements of each rule: ``evidence.json`` in the rule pack, which ``python -m validation.report`` writes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache

from torchlint.rule.registry import builtin_folder

#: Accepted in place of the name of a device.
KINDS = ("GPU", "CPU")


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
    change: str = ""  #: "deprecation warnings 9 → 0": the metric of the rule, if it is not time
    stale: bool = False  #: whether the programs have changed since

    @property
    def figure(self) -> str:
        """``3.4x [3.3, 3.5]``, after the metric of the rule if that is not time; empty without a figure."""
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
    """The main measurement of a rule: that of the first device, if it has a figure."""
    first = next(iter(measurements(code)), None)
    return first if first is not None and first.figure else None


def gain(code: str, device: str) -> Evidence | None:
    """The measurement of a rule's gain on ``device``: "GPU", "CPU", or a part of a device's name.

    It is confirmed, not stale, and of the main size. Of several devices it is the one with the largest gain. None if
    there is no such measurement.
    """
    main: dict[str, Evidence] = {}
    for one in measurements(code):
        if _is_of(one, device):
            main.setdefault(one.device, one)
    counted = [one for one in main.values() if one.verdict == "confirmed" and one.figure and not one.stale]
    return max(counted, key=lambda one: one.ci_low or 0, default=None)


def reaches(code: str, factor: float, device: str) -> bool:
    """Whether a rule was measured to bring at least ``factor`` on ``device``, by the lower end of the interval."""
    measured = gain(code, device)
    return measured is not None and (measured.ci_low or 0) >= factor


def devices() -> tuple[str, ...]:
    """The devices on which something was measured, GPUs first."""
    found = {one.device: one.gpu for entries in _evidence().values() for one in entries}
    return tuple(sorted(found, key=lambda device: (not found[device], device)))


def nothing_on(device: str) -> str:
    """The error message for a ``device`` without figures, with the devices that have some; empty if it has figures."""
    if any(_is_of(one, device) for entries in _evidence().values() for one in entries):
        return ""
    missing = f"a {device.upper()} yet" if device.upper() in KINDS else f"{device!r}"
    there = [kind for kind in KINDS if any(_is_of(one, kind) for entries in _evidence().values() for one in entries)]
    *most, last = [*there, *map(repr, devices())] or [""]
    choice = f"`device` may be {', '.join(most)} or {last}" if last else "there are no results at all"
    return f"nothing was measured on {missing}; {choice}"


def _is_of(measured: Evidence, device: str) -> bool:
    if device.upper() in KINDS:
        return measured.gpu is (device.upper() == "GPU")
    return bool(device) and device.lower() in measured.device.lower()


def benchmark(code: str) -> str:
    """A rule's evidence in one line, for display next to a finding: ``3.4x in the example program (NVIDIA H200, ...)``.

    It comes from a GPU. Without one it is empty: a figure from a CPU does not apply to code that runs on a GPU.
    """
    first = evidence_for(code)
    if first is None or not first.gpu:
        return ""
    others = [other for other in measurements(code)[1:] if other.device == first.device and other.speedup is not None]
    head, facts = first.change or f"{ratio(first.speedup or 0)}x", [first.device, f"torch {first.torch}"]
    if first.verdict != "confirmed":
        head, facts = first.verdict, [head, *facts]
    parts = [f"{head} in the example program ({', '.join(facts)})"]
    parts += [f"{ratio(other.speedup or 0)}x for {other.size}" for other in others]
    if first.stale:
        parts.append("stale: the example program has changed since")
    return "; ".join(parts)


@cache
def _evidence() -> dict[str, tuple[Evidence, ...]]:
    path = os.path.join(builtin_folder() or "", "evidence.json")
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {code: tuple(Evidence(**one) for one in entries) for code, entries in json.load(file).items()}
