"""Results as a table on the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from torchlint.measure.figures import change_of, interval, mebibytes, metric_change, ratio, seconds
from torchlint.measure.measure import Task
from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement

Key = tuple[str, str]  #: a pair's name and the label of a size

COLOURS = {
    "confirmed": "green",
    "no effect": "yellow",
    "slower": "red",
    "differs": "red",
    "not measured": "dim",
}


def key_of(task: Task) -> Key:
    """The key that identifies a task in a run."""
    return task.pair.name, task.label


def wide_console() -> Console:
    """The terminal; a log has no width of its own, and 80 columns would break every row."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=160)


def progress_on(console: Console) -> Progress:
    """A line that shows what is being measured, on a terminal only; it is drawn rarely, not to disturb."""
    columns = (
        SpinnerColumn(),
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True, refresh_per_second=2, disable=not console.is_terminal)


def verdict_of(pair: Pair, measurement: Measurement) -> str:
    """``3.4x [3.3, 3.5] confirmed``, with the reason or the counts of a verdict that needs them."""
    said = measurement.reason or metric_change(pair.metric, measurement)
    figure = f"{ratio(measurement.speedup)} {interval(measurement.ci_low, measurement.ci_high)}".strip()
    return " ".join(filter(None, (figure, ": ".join(filter(None, (measurement.verdict, said))))))


def table(
    title: str,
    tasks: Sequence[Task],
    measured: Mapping[Key, Measurement],
    notes: Mapping[Key, str],
) -> Table:
    """Every task with its measurement, or with a note where there is none; keys are pair and size label."""
    table = Table(title=title, title_justify="left")
    for column in ("pair", "size", "time of a run", "peak memory", "speed-up"):
        table.add_column(column)
    for task in tasks:
        key = key_of(task)
        found = measured.get(key)
        if found is None:
            table.add_row(*key, "", "", Text(notes.get(key, "to do"), style="dim"))
            continue
        timed = "first run" if task.pair.metric == "first run" else "time"
        table.add_row(
            *key,
            change_of(found, timed, seconds),
            change_of(found, "peak memory", mebibytes),
            Text(verdict_of(task.pair, found), style=COLOURS[found.verdict]),
        )
    return table
