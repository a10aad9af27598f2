"""``python -m validation``: measure the pairs and write ``validation/results/<device>.json``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from torchlint.measure.campaign import Campaign, in_order, likely_seconds
from torchlint.measure.environment import DeviceType, find_machine, shortage
from torchlint.measure.expectation import DEVICE
from torchlint.measure.measure import Task
from torchlint.measure.pairs import Pair, choose
from torchlint.measure.results import file_name, load
from torchlint.measure.table import key_of, table, wide_console

from .pairs import ROOT, controls, find_pairs

RESULTS = ROOT / "validation" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 all done, 1 the budget ended before, 2 wrong arguments, 130 Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        if options.plan:
            _plan(choose(find_pairs(), options.rules))
            return 0
        if options.sizes and not options.output:
            raise ValueError("--sizes measures other sizes than those of the committed results; add --output FILE")
        pairs = find_pairs()
        pairs = choose([*pairs, *controls(pairs)], options.rules)
        device, name, environment = find_machine(options.device)
        path = Path(options.output) if options.output else RESULTS / file_name(name)
        known = dict(load(path).results) if path.exists() else {}
    except (ValueError, OSError, SyntaxError) as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2
    tasks = _tasks(pairs, device, options.sizes)
    campaign = Campaign(name, environment, known, path)
    if options.list:
        _list(f"{name}, torch {environment['torch']}", pairs, tasks, campaign)
        return 0
    if missing := shortage():
        print(f"validation: {missing}", file=sys.stderr)
    try:
        if campaign.run(tasks, options.budget, resume=options.resume):
            return 0
        print("The time budget is used up; continue with --resume.")
        return 1
    except KeyboardInterrupt:
        print(f"validation: interrupted; the results so far are in {path}, continue with --resume", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m validation",
        description="Time the before/after programs of torchlint's rules and write the speed-ups to a file.",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "cpu"),
        default="auto",
        help="the device to measure on (default: the GPU if there is one)",
    )
    parser.add_argument("--rules", nargs="+", metavar="NAME", help="measure only these rules or whole programs")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop after this time")
    parser.add_argument(
        "--output", metavar="FILE", help="the file of results (default: validation/results/<device>.json)"
    )
    parser.add_argument("--resume", action="store_true", help="measure only missing, stale and unfinished results")
    parser.add_argument("--list", action="store_true", help="list the programs with their results, without measuring")
    parser.add_argument("--plan", action="store_true", help=f"estimate the time on one {DEVICE}, without measuring")
    parser.add_argument(
        "--sizes", nargs="+", type=float, metavar="SIZE", help="measure these sizes instead of those of the programs"
    )
    return parser


def _tasks(pairs: Sequence[Pair], device: DeviceType, sizes: Sequence[float] | None) -> list[Task]:
    """The tasks of a device; pairs without a size for the device are left out."""
    tasks = []
    for pair in pairs:
        if device in pair.sizes:
            chosen = pair.sizes[device] if sizes is None else {f"size {size:g}": size for size in sizes}
            tasks += [Task(pair, label, size, device) for label, size in chosen.items()]
    return tasks


def _list(title: str, pairs: Sequence[Pair], tasks: Sequence[Task], campaign: Campaign) -> None:
    """Print the tasks with their known results."""
    measured, notes = {}, {}
    for task in tasks:
        one = campaign.known(task)
        if one is None:
            result = campaign.results.get(task.pair.name)
            notes[key_of(task)] = "stale: the programs have changed" if result and result.stale(task.pair) else "to do"
        else:
            measured[key_of(task)] = one
    console = wide_console()
    console.print(table(title, tasks, measured, notes))
    others = sorted({pair.name for pair in pairs} - {task.pair.name for task in tasks})
    if others:
        console.print(f"No effect to measure on this device: {', '.join(others)}.")


def _plan(pairs: Sequence[Pair]) -> None:
    """Print the expected time of one pair of processes at each main size, on the device of the expectations."""
    title = f"Expected on one {DEVICE}, main sizes, one pair of processes"
    shown = Table("pair", "size", "speed-up", "seconds", "in all", title=title, title_justify="left")
    total = 0.0
    for task in in_order(_tasks(pairs, "cuda", None)):
        expected = task.pair.expected.get(task.label)
        if expected is not None and task.is_main:
            total += (took := likely_seconds(task))
            speedup = f"{expected.low:g}x to {expected.high:g}x"
            shown.add_row(task.pair.name, task.label, speedup, f"{took:.0f}", f"{total:.0f}")
    wide_console().print(shown)


if __name__ == "__main__":
    sys.exit(main())
