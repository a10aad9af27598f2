"""Measures one pair at one size: two processes, both alive, samples in turn."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, NamedTuple

from torchlint.measure.intervals import (
    LOOKS,
    Interval,
    Verdict,
    count_verdict,
    interval_over,
    narrow_enough,
    ratio_interval,
    settled,
    time_verdict,
)
from torchlint.measure.pairs import Pair
from torchlint.measure.process import Failure, Process
from torchlint.measure.results import Measurement, Run

HANG_S = 180.0  #: no program needs longer to start, or for one run; `torch.compile` included
LEAST_SAMPLES = 5
SHORTEST_SAMPLE_S = 0.05  #: shorter runs are repeated within a sample


class Task(NamedTuple):
    """A pair at one size on one device type."""

    pair: Pair
    label: str
    size: float
    device: str

    @property
    def is_main(self) -> bool:
        """Whether it is the size that the verdict on the pair is about."""
        return self.label in list(self.pair.sizes.get(self.device, {self.label: 0.0}))[:1]


class OutOfTimeError(Exception):
    """The deadline of the whole campaign came before a measurement had its samples."""


class Sides:
    """Both processes of a task. While they wait, they do not disturb what is measured in others."""

    def __init__(self, task: Task, environment: Mapping[str, str] | None = None, deadline: float = math.inf) -> None:
        """`environment` is added to that of the processes, which must have answered by `deadline` (of `monotonic`)."""
        self.task = task
        self.environment = environment
        self.deadline = deadline
        self.scratch = tempfile.TemporaryDirectory(prefix="torchlint-", ignore_cleanup_errors=True)
        self.processes: tuple[Process, ...] = ()
        self._prepared: list[float] | Failure | OutOfTimeError = []
        self.start()

    def start(self) -> None:
        """Start the processes, ending those there are."""
        self._stop_processes()
        folder, scratch = self.task.pair.folder, Path(self.scratch.name)
        self.processes = tuple(Process(folder, side, scratch, self.environment) for side in self.task.pair.sides)
        self._prepared = []

    def stop(self) -> None:
        """End the processes and remove what they left."""
        self._stop_processes()
        self.scratch.cleanup()

    def _stop_processes(self) -> None:
        for process in self.processes:
            process.stop()

    def prepare(self) -> list[float]:
        """Make both states, at the first call; the seconds that each took.

        Raises Failure or OutOfTimeError, at later calls too.
        """
        if not self._prepared:
            try:
                for process in self.processes:
                    process.receive(self._patience())
                answers = self._ask_both(do="prepare", device=self.task.device, size=self.task.size)
                self._prepared = [float(answer["seconds"]) for answer in answers]
            except (Failure, OutOfTimeError) as failure:
                self._prepared = failure
        if isinstance(self._prepared, Exception):
            raise self._prepared
        return self._prepared

    def first(self) -> list[dict[str, float]]:
        """The first run of each, which leaves what it computed in a file."""
        results = [{"result": self._result(index)} for index in range(len(self.processes))]
        return self._ask_both(results, do="first")

    def compare(self) -> tuple[float, float]:
        """How far the two results are apart, and how far they may be."""
        before, after = self._result(0), self._result(1)
        answer = self.processes[1].ask(self._patience(), do="compare", ours=after, theirs=before)
        return float(answer["difference"]), float(answer["tolerance"])

    def count(self) -> list[dict[str, float]]:
        """What each counts in a run."""
        return [process.ask(self._patience(), do="count") for process in self.processes]

    def sample(self, repeats: Sequence[int] = (1, 1), *, swap: bool = False) -> tuple[float, float]:
        """Seconds a run of each side, over so many runs of each; `swap` lets the second go first."""
        seconds = [0.0, 0.0]
        for index in (1, 0) if swap else (0, 1):
            answer = self.processes[index].ask(self._patience(), do="sample", repeat=repeats[index])
            seconds[index] = float(answer["seconds"])
        return seconds[0], seconds[1]

    def _ask_both(self, own: Sequence[Mapping[str, str]] = ({}, {}), **request: Any) -> list[dict[str, Any]]:
        """Put a question to both at once, unless the time of the answer is what is measured."""
        if self.task.pair.metric == "first run":
            asked = zip(self.processes, own, strict=True)
            return [process.ask(self._patience(), **request, **part) for process, part in asked]
        for process, part in zip(self.processes, own, strict=True):
            process.send(**request, **part)
        return [process.receive(self._patience()) for process in self.processes]

    def _patience(self) -> float:
        """How long to wait for an answer. Raises OutOfTimeError behind the deadline."""
        left = self.deadline - monotonic()
        if left <= 0:
            raise OutOfTimeError
        return min(HANG_S, left)

    def _result(self, index: int) -> str:
        return str(Path(self.scratch.name) / f"{index}.pt")


def measure(sides: Sides, limit: float, known: Measurement | None = None, deadline: float = math.inf) -> Measurement:
    """Measure a task with one pair of processes, taking samples for at most `limit` seconds.

    `known` is what earlier pairs of processes measured at this size; the answer is about all of them. Ends the
    processes. A program's failure is recorded in the answer. Raises OutOfTimeError if `deadline` (of `monotonic`) comes
    before there are enough samples.
    """
    task, sides.deadline = sides.task, deadline
    try:
        return _measure(sides, limit, known.runs if known else ())
    except Failure as failure:
        if monotonic() >= deadline:
            raise OutOfTimeError from None
        return Measurement(task.label, task.size, "not measured", str(failure))
    finally:
        sides.stop()


def _measure(sides: Sides, limit: float, earlier: Sequence[Run]) -> Measurement:
    pair = sides.task.pair
    prepared, firsts = sides.prepare(), sides.first()
    difference, tolerance = sides.compare()
    counts = sides.count()
    warm: Run = ([counts[0].pop("seconds")], [counts[1].pop("seconds")])
    figures: list[dict[str, float]] = [{**first, **count} for first, count in zip(firsts, counts, strict=True)]
    for figure, seconds in zip(figures, prepared, strict=True):
        first_run = figure.pop("seconds") + seconds
        if pair.metric == "first run":
            figure["first run"] = first_run
    if pair.metric == "first run":
        run = _first_runs(sides, (figures[0]["first run"], figures[1]["first run"]), limit)
    else:
        run = _steady_time(sides, limit, warm)
    runs = (*earlier, run)
    if pair.metric != "first run":
        for side, figure in enumerate(figures):
            figure["time"] = median([median(one[side]) for one in runs])
    interval = interval_over(runs)
    verdict, reason = judge(pair, interval, len(runs), *figures)
    if difference > tolerance:
        verdict, reason = "differs", f"the results are {difference:.2g} apart, {tolerance:.2g} is allowed"
    before, after = ({name: value for name, value in figure.items() if value is not None} for figure in figures)
    return Measurement(
        sides.task.label,
        sides.task.size,
        verdict,
        reason,
        interval.ratio,
        interval.low,
        interval.high,
        # JSON has no infinity: what cannot be compared at all is further apart than any number.
        difference=difference if math.isfinite(difference) else None,
        tolerance=tolerance,
        before=before,
        after=after,
        runs=runs,
    )


def judge(
    pair: Pair, interval: Interval, process_pairs: int, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[Verdict, str]:
    """The verdict by the pair's metric, and the reason if there is none."""
    if pair.metric in ("time", "first run"):
        return time_verdict(interval, process_pairs)
    return count_verdict(before[pair.metric], after[pair.metric])


def _steady_time(sides: Sides, limit: float, warm: Run) -> Run:
    """Warm up until times settle, then sample until the interval is narrow or the time is over.

    `warm` are the seconds of the runs after the first one.
    """
    start = monotonic()
    while not all(map(settled, warm)) and (monotonic() - start < limit / 3 or len(warm[0]) < 2):
        for series, seconds in zip(warm, sides.sample(), strict=True):
            series.append(seconds)
    # Each side by its own time: the quicker side's repetitions would make a sample of the slower one last for minutes.
    repeats = [min(100, math.ceil(SHORTEST_SAMPLE_S / max(series[-1], 1e-6))) for series in warm]
    return _sample(lambda swap: sides.sample(repeats, swap=swap), min(start + limit, sides.deadline))


def _first_runs(sides: Sides, already: tuple[float, float], limit: float) -> Run:
    """First runs, each in a fresh process: what start-up and compilation cost."""

    def fresh(swap: bool) -> tuple[float, float]:
        sides.start()
        made, first = sides.prepare(), sides.first()
        return made[0] + first[0]["seconds"], made[1] + first[1]["seconds"]

    return _sample(fresh, min(monotonic() + limit, sides.deadline), ([already[0]], [already[1]]))


def _sample(take: Callable[[bool], tuple[float, float]], deadline: float, series: Run = ([], [])) -> Run:
    """Take samples in turn (A B, B A, ...) until the interval is narrow enough or the time is over."""
    before, after = list(series[0]), list(series[1])
    for look in LOOKS:
        while len(before) < look and (monotonic() < deadline or len(before) < LEAST_SAMPLES):
            ours, theirs = take(len(before) % 2 == 1)
            before.append(ours)
            after.append(theirs)
        if narrow_enough(ratio_interval(before, after)) or monotonic() >= deadline:
            break
    return before, after
