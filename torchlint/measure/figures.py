"""Measured figures as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.measure.results import Measurement


def seconds(value: float) -> str:
    """Seconds with a suitable unit."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def mebibytes(value: float) -> str:
    """Bytes as MiB."""
    return f"{value / 2**20:.0f} MiB"


def ratio(value: float | None) -> str:
    """A speed-up: two decimals if they distinguish a gain from none, fewer above."""
    if value is None:
        return ""
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 100 else f"{value:.0f}x"


def interval(low: float | None, high: float | None) -> str:
    """The ends of a 95 % interval in brackets; empty if there is none."""
    return "" if low is None or high is None else f"[{ratio(low)[:-1]}, {ratio(high)[:-1]}]"


def release(torch: str) -> str:
    """``2.13.0+cpu`` -> ``2.13``."""
    return ".".join(torch.partition("+")[0].split(".")[:2])


def metric_change(metric: str, measurement: Measurement) -> str:
    """``16 -> 0`` for the metric of a rule that is a count; empty for times."""
    if metric in ("time", "first run") or metric not in measurement.before:
        return ""
    before, after = measurement.before[metric], measurement.after[metric]
    if metric == "peak memory":
        return f"{metric} {mebibytes(before)} → {mebibytes(after)}"
    return f"{metric} {before:.0f} → {after:.0f}"


def change_of(measurement: Measurement, metric: str, shown: Callable[[float], str]) -> str:
    """A metric's two figures; empty if there are none."""
    values = [side.get(metric) for side in (measurement.before, measurement.after)]
    return " → ".join(shown(value) for value in values if value) if all(values) else ""
