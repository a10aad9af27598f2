"""Results as a table on the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .measure import Task
from .pairs import Pair
from .results import Measurement

Key = tuple[str, str]  #: a pair's name and the label of a size

COLOURS = {
    "confirmed": "green",
    "no effect": "yellow",
    "slower": "red",
    "differs": "red",
    "not measured": "dim",
}


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


def interval(measurement: Measurement) -> str:
    """The 95 % interval in brackets."""
    if measurement.ci_low is None or measurement.ci_high is None:
        return ""
    return f"[{ratio(measurement.ci_low)[:-1]}, {ratio(measurement.ci_high)[:-1]}]"


def release(torch: str) -> str:
    """``2.13.0+cpu`` -> ``2.13``."""
    return ".".join(torch.partition("+")[0].split(".")[:2])


def metric_change(metric: str, measurement: Measurement) -> str:
    """``16 -> 0`` for a count, as the rule is judged by it; empty for times."""
    if metric in ("time", "first run") or metric not in measurement.before:
        return ""
    before, after = measurement.before[metric], measurement.after[metric]
    if metric == "peak memory":
        return f"{metric} {mebibytes(before)} → {mebibytes(after)}"
    return f"{metric} {before:.0f} → {after:.0f}"


def key_of(task: Task) -> Key:
    """The key that identifies a task in a run."""
    return task.pair.name, task.label


def wide_console() -> Console:
    """The terminal; a log has no width of its own, and 80 columns would break every row."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=160)


def verdict_of(pair: Pair, measurement: Measurement) -> str:
    """``3.4x [3.3, 3.5] confirmed``, with the reason or the counts of a verdict that needs them."""
    said = measurement.reason or metric_change(pair.metric, measurement)
    figure = f"{ratio(measurement.speedup)} {interval(measurement)}".strip()
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


def change_of(measurement: Measurement, metric: str, shown: Callable[[float], str]) -> str:
    """A metric's two figures; empty if there are none."""
    values = [side.get(metric) for side in (measurement.before, measurement.after)]
    return " → ".join(shown(value) for value in values if value) if all(values) else ""
