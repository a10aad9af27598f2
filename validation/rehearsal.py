"""``python -m validation.rehearsal``: run every pair and program on a fake CUDA device.

Each side runs in a process of its own, and twice, as a measurement does. The table says what a
run asks of the device (see `fake_cuda`); the exit status is 1 if a side raises an error.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torchlint.measure.pairs import Pair, choose
from torchlint.measure.process import Failure

from .child import call
from .fake_cuda import LAUNCH_S, Work, fake_cuda
from .pairs import find_pairs

LIMIT_S = 600.0  #: for one side


@dataclass(frozen=True)
class Rehearsal:
    """The result of one side of a pair on the fake device."""

    pair: str
    size: str
    side: str
    error: str = ""
    start: Work | None = None  #: prepare and the first run
    run: Work | None = None  #: a later run


def rehearse(pair: Pair, label: str, size: float, side: str, *, again: bool = True) -> Rehearsal:
    """Run one side at a size in a child process, twice or once; never raises an error if the program fails."""
    try:
        works = call(_run, str(pair.folder), side, size, again, limit=LIMIT_S)
    except Failure as failure:
        return Rehearsal(pair.name, label, side, str(failure))
    return Rehearsal(pair.name, label, side, "", *works)


def _run(side: str, size: float, again: bool) -> tuple[Work, Work]:
    """In the child: prepare, and run."""
    torch.set_num_threads(1)
    with fake_cuda() as device:
        module = importlib.import_module(side)
        state = module.prepare("cuda", size)
        module.work(state)
        start, device.work = device.work, Work()
        if again:
            module.work(state)
    return start, device.work


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse the chosen pairs; 0 if every side ran, 1 if one failed, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.rehearsal",
        description="Run the before/after programs on a fake CUDA device: shapes, dtypes, devices, control flow.",
    )
    parser.add_argument("--rules", nargs="+", metavar="NAME", help="run only these rules or whole programs")
    parser.add_argument("--size", type=float, help="run all programs at this size instead of their CUDA sizes")
    options = parser.parse_args(arguments)
    try:
        pairs = choose(find_pairs(), options.rules)
    except (ValueError, OSError, SyntaxError) as error:
        print(f"validation.rehearsal: {error}", file=sys.stderr)
        return 2
    failed = 0
    for pair in pairs:
        sizes = pair.sizes.get("cuda", {})
        if sizes and options.size is not None:
            sizes = {f"size {options.size:g}": options.size}
        for label, size in sizes.items():
            for side in pair.sides:
                done = rehearse(pair, label, size, side)
                failed += bool(done.error)
                print(line(done), flush=True)
    print(f"{failed} failed, torch {torch.__version__}")
    return 1 if failed else 0


def line(done: Rehearsal) -> str:
    """One side as a row of text."""
    head = f"{done.pair} {done.side} ({done.size})"
    if done.error or done.run is None or done.start is None:
        return f"{head}: FAILED {done.error}"
    run = done.run
    return (
        f"{head}: {run.operations} operations, {run.synchronizations} synchronizations, {run.flops / 1e12:.3g} TFLOP, "
        f"{run.bytes / 1e9:.3g} GB, {run.copied / 1e6:.3g} MB copied; device {run.device_s * 1e3:.3g} ms, launches "
        f"{run.operations * LAUNCH_S * 1e3:.3g} ms, copies {run.copy_s * 1e3:.3g} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
