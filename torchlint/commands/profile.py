"""``torchlint profile -- python train.py``: records a trace of some steps of a script, for ``check --profile``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchlint.commands import CLEAN, Parser, UsageError

_RECORDER = Path(__file__).parents[1] / "profile" / "injected.py"
_OUTPUT = "trace.json.gz"


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint profile",
        usage="torchlint profile [OPTIONS] -- COMMAND ...",
        description="Run a training script, record some of its steps with torch.profiler, and stop it. "
        "The script needs no changes; torch must be installed where it runs.",
        epilog="example: torchlint profile --steps 5 -- python train.py --epochs 1\n"
        "then:    torchlint check --profile trace.json.gz",
    )
    parser.add_argument("--steps", type=_count, default=5, metavar="N", help="how many steps to record (default: 5)")
    parser.add_argument(
        "--wait", type=_count, default=10, metavar="N", help="how many steps to leave out first (default: 10)"
    )
    parser.add_argument(
        "--unit",
        choices=("optimizer", "forward"),
        default="optimizer",
        help="what ends a step: `step()` of an optimizer, or an outermost call of a network, for inference "
        "(default: optimizer)",
    )
    parser.add_argument("-o", "--output-file", default=_OUTPUT, metavar="FILE", help=f"default: {_OUTPUT}")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Record a trace. Raises UsageError if the script fails or takes too few steps."""
    if "--" not in arguments:
        if not {"-h", "--help"}.isdisjoint(arguments):
            parser().parse_args(arguments)
        raise UsageError("give the command to run behind `--`: torchlint profile -- python train.py")
    from torchlint.injection.folder import fill

    end = list(arguments).index("--")
    options = parser().options(arguments[:end])
    command = list(arguments[end + 1 :])
    if not command:
        raise UsageError("there is no command behind `--`: torchlint profile -- python train.py")
    folder = os.path.dirname(os.path.abspath(options.output_file))
    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: no such folder")
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.json")
        hooks = Path(scratch, "hooks")
        fill(hooks, _RECORDER)
        status = _run(command, _environment(options, report, hooks))
        seen = _seen(report)
    name = shlex.join(command)
    if not seen["recorded"]:
        raise UsageError(_reason(name, status, seen["steps"], options))
    size = os.path.getsize(options.output_file) / 1e6
    if options.quiet:
        return CLEAN
    print(
        f"Recorded {options.steps} steps in {options.output_file} ({size:.1f} MB), and stopped `{name}` after them.\n"
        f"Next: torchlint check --profile {shlex.quote(options.output_file)}",
        file=sys.stderr,
    )
    return CLEAN


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number of steps")
    return number


def _environment(options: argparse.Namespace, report: str, hooks: Path) -> dict[str, str]:
    """The environment of the script: Python runs the hooks when it starts."""
    from torchlint.injection.folder import import_path

    given = {
        "steps": options.steps,
        "wait": options.wait,
        "unit": options.unit,
        "output": os.path.abspath(options.output_file),
        "report": report,
    }
    path = import_path(hooks, os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": path, "TORCHLINT_PROFILE": json.dumps(given)}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the script to its end or to that of the recording; its exit status."""
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except OSError as error:
        hint = f"; to run a script: -- python {command[0]}" if command[0].endswith(".py") else ""
        raise UsageError(f"{command[0]}: {error.strerror or error}{hint}") from error


def _seen(report: str) -> dict[str, int]:
    """How many steps the script has taken, and how many were recorded."""
    try:
        with open(report, encoding="utf-8") as file:
            found: dict[str, int] = json.load(file)
    except (OSError, ValueError):
        return {"steps": 0, "recorded": False}
    return found


def _reason(name: str, status: int, steps: int, options: argparse.Namespace) -> str:
    """Why nothing was recorded."""
    if status:
        return f"`{name}` failed with status {status} before {options.steps} steps were recorded"
    if steps:
        needed = options.wait + options.steps + 1
        return f"`{name}` ended after {steps} of the {needed} steps that are needed: lower --steps or --wait"
    if options.unit == "forward":
        return f"`{name}` never called a network, or does not run in a Python that reads PYTHONPATH"
    return f"`{name}` never called `step()` of an optimizer; for inference, use --unit forward"
