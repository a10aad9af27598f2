"""The measurements: ``<device>.json``, one file per device, always written completely."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from torchlint.measure.intervals import Interval, Verdict, pairs_needed
from torchlint.measure.pairs import Metric, Pair
from torchlint.source.replacing import replace_file

Run = tuple[list[float], list[float]]  #: of one pair of processes: seconds per run, before and after, sample by sample


@dataclass(frozen=True)
class Measurement:
    """A pair measured at one size on one device."""

    label: str  #: the size, in words
    size: float
    verdict: Verdict
    reason: str = ""  #: why there is no figure
    speedup: float | None = None  #: time before over time after: of a run, or of the first run where that is the metric
    ci_low: float | None = None
    ci_high: float | None = None
    difference: float | None = None  #: between what the two compute, relative
    tolerance: float = 0.0
    #: by metric name, and "items" in a run; times in seconds, memory in bytes
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()  #: one for each pair of processes

    @property
    def has_enough_pairs(self) -> bool:
        """Whether there is a ratio of times, from as many pairs of processes as a verdict on it needs."""
        if self.speedup is None or self.ci_low is None or self.ci_high is None:
            return False
        return len(self.runs) >= pairs_needed(Interval(self.speedup, self.ci_low, self.ci_high))

    @property
    def samples(self) -> int:
        """The number of samples of each side."""
        return sum(len(before) for before, _ in self.runs)


@dataclass(frozen=True)
class PairResult:
    """A pair measured on one device."""

    name: str
    kind: str
    metric: Metric
    unit: str
    digest: str  #: of the pair that was measured
    harness: str  #: the digest of the code that measured it
    torch: str
    date: str
    measurements: tuple[Measurement, ...]

    @property
    def main(self) -> Measurement:
        """The measurement of the verdict."""
        return self.measurements[0]

    def times(self, one: Measurement) -> bool:
        """Whether the ratio of times is known: that of a count may come from too few pairs of processes."""
        is_timed = self.metric in ("time", "first run")
        return one.speedup is not None and (is_timed or one.has_enough_pairs)

    def stale(self, pair: Pair | None) -> bool:
        """Whether the pair has changed since, or no longer exists."""
        return pair is None or pair.digest != self.digest


@dataclass(frozen=True)
class Results:
    """All results of one device."""

    device: str  #: its name, for readers
    environment: Mapping[str, str]
    results: Mapping[str, PairResult]  #: by name of the pair

    def to_json(self) -> str:
        """The file's content."""
        data = {
            "device": self.device,
            "environment": dict(self.environment),
            "results": [_rounded(asdict(self.results[name])) for name in sorted(self.results)],
        }
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _rounded(value: Any) -> Any:
    """The same value with each fraction rounded to five digits."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def file_name(device: str) -> str:
    """``NVIDIA H200`` -> ``nvidia-h200.json``."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


def load(path: Path) -> Results:
    """Read a file of results. Raises ValueError, naming the file, if it is not one."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        results = {}
        for entry in data["results"]:
            measurements = tuple(_measurement(measurement) for measurement in entry.pop("measurements"))
            result = results[entry["name"]] = PairResult(**entry, measurements=measurements)
            _check(bool(measurements), result.metric, result.torch, result.date, result.digest)
        _check(True, data["device"], data["environment"]["type"])
        return Results(data["device"], data["environment"], results)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a file of results: {error}") from None


def _measurement(entry: dict[str, Any]) -> Measurement:
    runs = tuple((list(before), list(after)) for before, after in entry.pop("runs"))
    one = Measurement(**entry, runs=runs)
    figures = (one.speedup, one.ci_low, one.ci_high, *one.before.values(), *one.after.values())
    _check(all(isinstance(value, (int, float, NoneType)) for value in figures), one.label, one.verdict, one.reason)
    return one


def _check(is_sound: bool, *texts: object) -> None:
    """Anyone can write such a file: raise ValueError for what would fail where it is shown."""
    if not is_sound or not all(isinstance(text, str) for text in texts):
        raise ValueError("a value is missing or of another type")


def load_all(folder: Path) -> list[Results]:
    """The results of all devices: GPUs first, and of several the one with the most results."""
    loaded = [load(path) for path in sorted(folder.glob("*.json"))]

    def order(results: Results) -> tuple[bool, int, str]:
        return results.environment["type"] != "cuda", -len(results.results), results.device

    return sorted(loaded, key=order)


def save(results: Results, path: Path) -> None:
    """Write a file of results completely, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(str(path), results.to_json().encode(), 0o644)
