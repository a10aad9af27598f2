"""One run over many tasks: decides what is measured next, keeps the time limit, keeps the file of results complete."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from torchlint.measure.environment import cpu_count, harness
from torchlint.measure.intervals import LOOKS, Verdict
from torchlint.measure.measure import LEAST_SAMPLES, SHORTEST_SAMPLE_S, OutOfTimeError, Sides, Task, measure
from torchlint.measure.pairs import CARD
from torchlint.measure.results import Measurement, PairResult, Results, save
from torchlint.measure.table import Key, key_of, progress_on, table, verdict_of, wide_console

SAMPLING_S = {"cuda": 6.0, "cpu": 15.0}  #: at most, for one pair of processes
COUNTED_S = 4.0  #: for a pair whose metric is a count: the time is additional information
LIKELY_SAMPLES = LOOKS[0]  #: of each side, if the times are stable
IMPORT_S = 6.0  #: until two processes have imported torch and created a CUDA context
#: How many tasks make their states at the same time, to be measured one after another: the last number of the first
#: line whose cores and GiB of GPU memory the machine has.
TOGETHER = ((16, 96, 4), (8, 48, 2), (0, 0, 1))

CONCLUSIVE: tuple[Verdict, ...] = ("confirmed", "no effect", "slower")


class Campaign:
    """Measures tasks and writes each result at once."""

    def __init__(
        self, device: str, environment: Mapping[str, str], known: Mapping[str, PairResult], path: Path
    ) -> None:
        """`known` are the results in the file at `path`; they remain unless they are measured again."""
        self.device = device
        self.environment = environment
        self.results = dict(known)
        self.path = path
        self.harness = harness()
        memory = float(environment.get("memory", "0").split()[0])
        self.width = next(width for cores, least, width in TOGETHER if cpu_count() >= cores and memory >= least)

    def run(self, tasks: Sequence[Task], budget: float | None = None, *, resume: bool = False) -> bool:
        """Measure tasks, the most important first; whether all were before the budget (seconds) was used up.

        With `resume`, only unfinished tasks; otherwise each task from the beginning.
        """
        console = wide_console()
        progress = progress_on(console)
        shown = progress.add_task("", total=len(tasks))
        start = monotonic()
        deadline = start + (math.inf if budget is None else budget)
        again = set() if resume else {key_of(task) for task in tasks}
        tried: set[Key] = set()

        def left() -> int:
            return sum(key_of(task) in again or not self.is_done(task) for task in tasks)

        progress.start()
        try:
            while following := list(self._following(tasks, again, tried)):
                fits = [task for task in following if monotonic() + self._estimate(task) <= deadline]
                if not fits:
                    break
                with self._prepared(fits, deadline) as together:
                    for sides in together:
                        task, begin = sides.task, monotonic()
                        now = f"{task.pair.name} ({task.label})"
                        progress.update(shown, description=now, completed=len(tasks) - left())
                        earlier = None if key_of(task) in again else self.known(task)
                        measured = measure(sides, _sampling_limit(task), earlier, deadline)
                        again.discard(key_of(task))
                        tried |= {key_of(task)} if not measured.runs else set()
                        self._record(task, measured)
                        # Immediately, so that an interrupted command has reported its progress.
                        line = f"{begin - start:5.0f} s  {now}: {verdict_of(task.pair, measured)}"
                        console.out(f"{line}; took {monotonic() - begin:.0f} s", highlight=False)
        except OutOfTimeError:
            pass
        finally:
            progress.stop()
        found = {key_of(task): one for task in tasks if key_of(task) not in again and (one := self.known(task))}
        console.print(table(f"{self.device}, torch {self.environment['torch']}", tasks, found, {}))
        console.print(f"{len(tasks) - left()} of {len(tasks)} done, written to {self.path}.", soft_wrap=True)
        return left() <= sum(key in tried for key in map(key_of, tasks))

    def known(self, task: Task) -> Measurement | None:
        """The measurement of a task for these programs and this torch version."""
        result = self.results.get(task.pair.name)
        if result is None or result.stale(task.pair) or result.torch != self.environment["torch"]:
            return None
        return next((one for one in result.measurements if (one.label, one.size) == (task.label, task.size)), None)

    def is_done(self, task: Task) -> bool:
        """Whether a task has a figure from as many pairs of processes as its verdict needs."""
        one = self.known(task)
        if one is None or one.speedup is None:
            return False
        if one.verdict == "differs" or task.pair.metric not in ("time", "first run"):
            return True
        # A later pair of processes may move a ratio that was near 1 away from it: several pairs remain enough.
        return one.has_enough_pairs

    def _following(self, tasks: Sequence[Task], again: set[Key], tried: set[Key]) -> Iterator[Task]:
        """The remaining tasks, in order: main sizes, then their further pairs of processes, then the other sizes."""
        left = [task for task in tasks if key_of(task) not in tried]
        left = [task for task in left if key_of(task) in again or not self.is_done(task)]
        begun = {key_of(task) for task in left if key_of(task) not in again and self.known(task)}
        yield from sorted(in_order(left), key=lambda task: (not task.is_main, key_of(task) in begun))

    @contextmanager
    def _prepared(self, tasks: Sequence[Task], deadline: float) -> Iterator[list[Sides]]:
        """The first of some tasks, and the next ones if the machine has memory for them: all have made their states.

        A task whose time to start is measured is prepared alone.
        """
        alone = [task.pair.metric == "first run" for task in tasks]
        count = next((index for index in range(1, len(tasks)) if alone[0] or alone[index]), len(tasks))
        together: list[Sides] = []
        try:
            with ThreadPoolExecutor(self.width) as threads:
                try:
                    together += [Sides(task, deadline=deadline) for task in tasks[: min(count, self.width)]]
                    wait([threads.submit(sides.prepare) for sides in together])  # `measure` hears of failures
                except BaseException:
                    for sides in together:
                        sides.stop()  # which also ends what the threads wait for
                    raise
            yield together
        finally:
            for sides in together:
                sides.stop()

    def _estimate(self, task: Task) -> float:
        """A lower bound of the seconds that a task takes with one pair of processes."""
        begin = IMPORT_S / self.width
        expected = task.pair.expected.get(task.label) if task.device == "cuda" else None
        if expected is None:
            return begin + LEAST_SAMPLES * SHORTEST_SAMPLE_S
        return begin + expected.start_s + expected.sampling_s(2, 0.0) + expected.sampling_s(LEAST_SAMPLES, 0.0)

    def _record(self, task: Task, measurement: Measurement) -> None:
        """Add a measurement to the results of the same programs and torch version, and write the file."""
        pair, torch = task.pair, self.environment["torch"]
        before = self.known(task)
        if before and len(before.runs) >= len(measurement.runs):
            verdicts = {before.verdict, measurement.verdict}
            if len(verdicts) == 2 and verdicts <= set(CONCLUSIVE):
                reason = f"two measurements disagree: {before.verdict}, then {measurement.verdict}"
                measurement = replace(measurement, verdict="not measured", reason=reason)
        result = self.results.get(pair.name)
        others = result.measurements if result and not result.stale(pair) and result.torch == torch else ()
        by_label = {one.label: one for one in (*others, measurement)}
        # The program's order, so that the first is the one of the verdict; labels that no longer exist are removed.
        sizes = pair.sizes.get(task.device, {})
        order = [label for label in (sizes if task.label in sizes else by_label) if label in by_label]
        self.results[pair.name] = PairResult(
            pair.name,
            pair.kind,
            pair.metric,
            pair.unit,
            pair.digest,
            self.harness,
            torch,
            datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            tuple(by_label[label] for label in order),
        )
        save(Results(self.device, self.environment, self.results), self.path)


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """The most important first: whole programs, the best-known rules, other rules, controls."""
    kinds = {"program": 0, "rule": 2, "control": 3}
    return sorted(tasks, key=lambda task: 1 if task.pair.name in CARD else kinds[task.pair.kind])


def _sampling_limit(task: Task) -> float:
    if task.pair.metric not in ("time", "first run"):
        return COUNTED_S
    return SAMPLING_S[task.device]


def likely_seconds(task: Task) -> float:
    """The approximate seconds of one pair of processes of a CUDA task on the device of the expectations."""
    expected = task.pair.expected[task.label]
    limit = _sampling_limit(task)
    samples = expected.sampling_s(LIKELY_SAMPLES, SHORTEST_SAMPLE_S)
    least = expected.sampling_s(LEAST_SAMPLES, SHORTEST_SAMPLE_S)
    # After the first run, one run that counts and one that warms up.
    return IMPORT_S / TOGETHER[0][-1] + expected.start_s + expected.sampling_s(2, 0.0) + max(least, min(limit, samples))
