"""One run over many tasks: shares out the time, shows what happens, keeps the file of results whole."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

from rich.live import Live

from .environment import cpu_count
from .measure import Sides, Task, measure
from .results import Measurement, Result, Results, save
from .table import Key, key_of, table, wide_console

SAMPLING_S = 40.0  #: at most, for one pair at one size
LEAST_SAMPLING_S = 5.0
START_S = 15.0  #: about what starting and preparing a pair costs; only for sharing out a budget
CORES_TO_START_AHEAD = 8  #: below, two more processes that import torch would disturb what is being measured


class Campaign:
    """Measures tasks and writes each result as soon as it stands."""

    def __init__(self, device: str, environment: Mapping[str, str], known: Mapping[str, Result], path: Path) -> None:
        """`known` are the results that the file at `path` holds already; they stay, unless measured again."""
        self.device = device
        self.environment = environment
        self.results = dict(known)
        self.path = path
        self.measured: dict[Key, Measurement] = {}

    def run(self, tasks: Sequence[Task], budget: float | None = None) -> int:
        """Measure tasks in order; 0 if all were, 1 if the budget (seconds) did not suffice."""
        console = wide_console()
        deadline = monotonic() + (float("inf") if budget is None else budget)
        ahead = 1 if cpu_count() >= CORES_TO_START_AHEAD else 0
        started: dict[Key, Sides] = {}
        live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        with live or nullcontext():
            try:
                for index, task in enumerate(tasks):
                    left = deadline - monotonic()
                    if left < START_S:
                        break
                    for upcoming in tasks[index : index + 1 + ahead]:
                        if key_of(upcoming) not in started:
                            started[key_of(upcoming)] = Sides(upcoming)
                    if live:
                        notes = {key_of(task): f"runs, {index + 1} of {len(tasks)}"}
                        live.update(table(self._title(), tasks, self.measured, notes), refresh=True)
                    share = left / (len(tasks) - index) - START_S
                    limit = max(LEAST_SAMPLING_S, min(SAMPLING_S, share))
                    self._record(task, measure(started.pop(key_of(task)), limit))
            finally:
                for sides in started.values():
                    sides.stop()
        console.print(table(self._title(), tasks, self.measured, {}))
        left_out = len(tasks) - len(self.measured)
        console.print(f"{len(self.measured)} of {len(tasks)} measured, written to {self.path}.", soft_wrap=True)
        if left_out:
            console.print("The budget is used up; go on with --resume.")
        return 1 if left_out else 0

    def _title(self) -> str:
        return f"{self.device}, torch {self.environment['torch']}"

    def _record(self, task: Task, measurement: Measurement) -> None:
        """Take a measurement into the results, beside those of the same programs and torch, and write the file."""
        self.measured[key_of(task)] = measurement
        pair, torch = task.pair, self.environment["torch"]
        known = self.results.get(pair.name)
        others = known.measurements if known and not known.stale(pair) and known.torch == torch else ()
        by_label = {one.label: one for one in (*others, measurement)}
        # The program's order, so that the first is the one that the verdict is of.
        order = [label for label in pair.sizes.get(task.device, {}) if label in by_label]
        order += [label for label in by_label if label not in order]
        self.results[pair.name] = Result(
            pair.name,
            pair.kind,
            pair.metric,
            pair.unit,
            pair.digest,
            torch,
            datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            tuple(by_label[label] for label in order),
        )
        save(Results(self.device, self.environment, self.results), self.path)
