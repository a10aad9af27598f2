"""Measures one pair at one size: two processes, both alive, samples in turn."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

from .intervals import LOOKS, Interval, Verdict, count_verdict, narrow_enough, ratio_interval, settled, time_verdict
from .pairs import SIDES, Pair
from .process import Failure, Process
from .results import Measurement

HANG_S = 180.0  #: no program needs longer to start, or for one run; `torch.compile` included
LEAST_SAMPLES = 5
SHORTEST_SAMPLE_S = 0.05  #: shorter runs are repeated within a sample

Series = tuple[list[float], list[float]]  #: seconds a run, before and after


class Task(NamedTuple):
    """A pair at one size on one device type."""

    pair: Pair
    label: str
    size: float
    device: str


class Sides:
    """Both processes of a task. Starting them early is free of charge for what is measured meanwhile: they import
    torch and wait."""

    def __init__(self, task: Task, environment: Mapping[str, str] | None = None) -> None:
        self.task = task
        self.environment = environment
        self.scratch = tempfile.TemporaryDirectory(prefix="torchlint-")
        self.processes: tuple[Process, ...] = ()
        self.start()

    def start(self) -> None:
        """Start the processes, ending those there are."""
        self._stop_processes()
        folder, scratch = self.task.pair.folder, Path(self.scratch.name)
        self.processes = tuple(Process(folder, side, scratch, self.environment) for side in SIDES)
        self._awaited = False

    def stop(self) -> None:
        """End the processes and remove what they left."""
        self._stop_processes()
        self.scratch.cleanup()

    def _stop_processes(self) -> None:
        for process in self.processes:
            process.stop()

    def prepare(self) -> list[float]:
        """Make both states; the seconds that each took."""
        for process in self.processes if not self._awaited else ():
            process.receive(HANG_S)
        self._awaited = True
        return [
            float(process.ask(HANG_S, do="prepare", device=self.task.device, size=self.task.size)["seconds"])
            for process in self.processes
        ]

    def first(self) -> list[dict[str, float]]:
        """The first run of each, which leaves what it computed in a file."""
        return [process.ask(HANG_S, do="first", result=self._result(process)) for process in self.processes]

    def compare(self) -> tuple[float, float]:
        """How far the two results are apart, and how far they may be."""
        before, after = self.processes
        answer = after.ask(HANG_S, do="compare", ours=self._result(after), theirs=self._result(before))
        return float(answer["difference"]), float(answer["tolerance"])

    def count(self) -> list[dict[str, float]]:
        """What each counts in a run."""
        return [process.ask(HANG_S, do="count") for process in self.processes]

    def sample(self, repeat: int = 1, *, swap: bool = False) -> tuple[float, float]:
        """Seconds a run of each side; `swap` lets the second go first."""
        order = self.processes[::-1] if swap else self.processes
        seconds = [float(process.ask(HANG_S, do="sample", repeat=repeat)["seconds"]) for process in order]
        before, after = seconds[::-1] if swap else seconds
        return before, after

    def _result(self, process: Process) -> str:
        return str(Path(self.scratch.name) / f"{process.side}.pt")


def measure(sides: Sides, limit: float) -> Measurement:
    """Measure a task, taking samples for at most `limit` seconds. Ends the processes; never raises for a program's
    failure, which is recorded instead."""
    task = sides.task
    try:
        return _measure(sides, limit)
    except Failure as failure:
        return Measurement(task.label, task.size, "not measured", str(failure))
    finally:
        sides.stop()


def _measure(sides: Sides, limit: float) -> Measurement:
    task = sides.task
    prepared = sides.prepare()
    firsts = sides.first()
    difference, tolerance = sides.compare()
    agree = difference <= tolerance
    # JSON knows no infinity: what is not comparable at all is further apart than any number.
    apart = difference if math.isfinite(difference) else None
    if not agree:
        reason = f"the results are {difference:.2g} apart, {tolerance:.2g} is allowed"
        return Measurement(task.label, task.size, "differs", reason, difference=apart, tolerance=tolerance)
    figures: list[dict[str, float]] = [{**first, **count} for first, count in zip(firsts, sides.count(), strict=True)]
    for figure, seconds in zip(figures, prepared, strict=True):
        figure["first run"] = figure.pop("seconds") + seconds
    if task.pair.metric == "first run":
        interval, samples = _first_runs(sides, (figures[0]["first run"], figures[1]["first run"]), limit)
    else:
        interval, samples = _steady_time(sides, limit)
        for figure, series in zip(figures, samples, strict=True):
            figure["time"] = median(series)
    verdict, reason = judge(task.pair, interval, *figures)
    before, after = ({name: value for name, value in figure.items() if value is not None} for figure in figures)
    return Measurement(
        task.label,
        task.size,
        verdict,
        reason,
        interval.ratio,
        interval.low,
        interval.high,
        len(samples[0]),
        apart,
        tolerance,
        before,
        after,
    )


def judge(
    pair: Pair, interval: Interval, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[Verdict, str]:
    """The verdict by the pair's metric, and why where it needs a word."""
    if pair.metric in ("time", "first run"):
        return time_verdict(interval)
    return count_verdict(before[pair.metric], after[pair.metric])


def _steady_time(sides: Sides, limit: float) -> tuple[Interval, Series]:
    """Warm up until times settle, then sample until the interval is narrow or the time is over."""
    start = monotonic()
    warm: Series = ([], [])
    while not all(map(settled, warm)) and (monotonic() - start < limit / 3 or not warm[0]):
        for series, seconds in zip(warm, sides.sample(), strict=True):
            series.append(seconds)
    repeat = min(100, math.ceil(SHORTEST_SAMPLE_S / min(warm[0][-1], warm[1][-1])))
    return _sample(lambda swap: sides.sample(repeat, swap=swap), start + limit)


def _first_runs(sides: Sides, already: tuple[float, float], limit: float) -> tuple[Interval, Series]:
    """First runs, each in a fresh process: what start-up and compilation cost."""

    def fresh(swap: bool) -> tuple[float, float]:
        sides.start()
        made, first = sides.prepare(), sides.first()
        return made[0] + first[0]["seconds"], made[1] + first[1]["seconds"]

    return _sample(fresh, monotonic() + limit, ([already[0]], [already[1]]))


def _sample(
    take: Callable[[bool], tuple[float, float]], deadline: float, series: Series = ([], [])
) -> tuple[Interval, Series]:
    """Take samples in turn (A B, B A, ...) until the interval is narrow enough or the time is over."""
    before, after = list(series[0]), list(series[1])
    for look in LOOKS:
        while len(before) < look and (monotonic() < deadline or len(before) < LEAST_SAMPLES):
            ours, theirs = take(len(before) % 2 == 1)
            before.append(ours)
            after.append(theirs)
        interval = ratio_interval(before, after)
        if narrow_enough(interval) or monotonic() >= deadline:
            break
    return interval, (before, after)
