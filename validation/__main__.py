"""``python -m validation``: measure the pairs and write ``validation/results/<device>.json``."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .campaign import Campaign
from .environment import DeviceType, describe, resolve
from .measure import Task
from .pairs import Pair, find_pairs
from .results import RESULTS, Result, file_name, load
from .table import key_of, table, wide_console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 all measured, 1 a budget ended before, 2 wrong arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        if options.sizes and not options.output:
            raise ValueError("--sizes measures other sizes than the committed results hold; add --output FILE")
        device = resolve(options.device)
        pairs = _choose(find_pairs(), options.rules)
        name, environment = describe(device)
        path = Path(options.output) if options.output else RESULTS / file_name(name)
        known = dict(load(path).results) if path.exists() else {}
    except (ValueError, OSError, SyntaxError) as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2
    tasks = _tasks(pairs, device, options.sizes)
    if options.list:
        _list(f"{name}, torch {environment['torch']}", pairs, tasks, known)
        return 0
    if options.resume:
        tasks = [task for task in tasks if not _is_done(task, known, environment["torch"])]
    try:
        return Campaign(name, environment, known, path).run(tasks, options.budget)
    except KeyboardInterrupt:
        print(f"validation: interrupted; what was measured is in {path}, go on with --resume", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m validation",
        description="Time the before/after programs of torchlint's rules and write down what they gain.",
    )
    parser.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: the GPU if there is one"
    )
    parser.add_argument("--rules", nargs="+", metavar="NAME", help="only these rules or whole programs")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="start nothing that would end later")
    parser.add_argument("--output", metavar="FILE", help="default: validation/results/<device>.json")
    parser.add_argument("--resume", action="store_true", help="only what has no result yet, or a stale one")
    parser.add_argument("--list", action="store_true", help="show what there is and what is known, and measure nothing")
    parser.add_argument("--sizes", nargs="+", type=float, metavar="SIZE", help="other sizes than the programs name")
    return parser


def _choose(pairs: list[Pair], names: Sequence[str] | None) -> list[Pair]:
    """The pairs of these names. Raises ValueError for a name that is none."""
    by_name = {pair.name: pair for pair in pairs}
    for name in names or ():
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 1)
            raise ValueError(f"there is no pair {name!r}" + (f"; did you mean {near[0]}?" if near else "; see --list"))
    return pairs if names is None else [by_name[name] for name in dict.fromkeys(names)]


def _tasks(pairs: Sequence[Pair], device: DeviceType, sizes: Sequence[float] | None) -> list[Task]:
    """What there is to measure on a device; a pair that shows nothing there is left out."""
    tasks = []
    for pair in pairs:
        if device in pair.sizes:
            chosen = pair.sizes[device] if sizes is None else {f"size {size:g}": size for size in sizes}
            tasks += [Task(pair, label, size, device) for label, size in chosen.items()]
    return tasks


def _is_done(task: Task, known: Mapping[str, Result], torch: str) -> bool:
    """Whether the task has a result that holds: of these programs and this torch."""
    result = known.get(task.pair.name)
    return (
        result is not None
        and not result.stale(task.pair)
        and result.torch == torch
        and any(measurement.label == task.label for measurement in result.measurements)
    )


def _list(title: str, pairs: Sequence[Pair], tasks: Sequence[Task], known: Mapping[str, Result]) -> None:
    """Print what there is to measure, and what is known of it."""
    measured, notes = {}, {}
    for task in tasks:
        key, result = key_of(task), known.get(task.pair.name)
        found = [one for one in result.measurements if one.label == task.label] if result else []
        if result and found:
            measured[key] = found[0]
            if result.stale(task.pair):
                notes[key] = "stale: the programs have changed since"
        else:
            notes[key] = "not measured"
    console = wide_console()
    console.print(table(title, tasks, measured, notes))
    others = sorted({pair.name for pair in pairs} - {task.pair.name for task in tasks})
    if others:
        console.print(f"Nothing to show on this device: {', '.join(others)}.")


if __name__ == "__main__":
    sys.exit(main())
