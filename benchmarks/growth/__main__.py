"""Measures how the time of a check grows with the size of a file, or the number of files, for many shapes of code.

    python -m benchmarks.growth [SHAPE ...] [--sizes 4] [--scale 1] [--limit 60] [--bound 1.2]

Each shape is generated at n, 2n, 4n, ... and checked with all rules of torchlint. For each size the user CPU time of
parsing and of the rest (model, rules, suppressions) is printed, and the exponent of each for the last doubling: 1.0
means twice the time for twice the code. The exit status is 1 if an exponent of the rest is above the bound. Of a
program of many files, parsing is part of the rest.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from torchlint.engine.checker import check
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.registry import load_rules
from torchlint.settings.settings import Settings
from torchlint.source.parsing import garbage_collection_paused
from torchlint.source.source import Source

from . import SHAPES
from .files import PROGRAMS

#: Shorter times are noise: nothing is concluded from them.
SHORTEST = 0.1


def user_time() -> float:
    """User CPU time of this process, in seconds."""
    return os.times().user


def measure(text: str, settings: Settings) -> tuple[float, float, int]:
    """User CPU time of parsing ``text`` and of the rest of a check, and the number of findings."""
    parse_pieces("pass\n")  # what is known of the text before is forgotten
    start = user_time()
    with garbage_collection_paused():
        parse_pieces(text)
    parsed = user_time()
    found = check(Source.from_text(text, "shape.py"), settings)  # takes the trees that were just made
    return parsed - start, user_time() - parsed, len(found)


def measure_program(files: Mapping[str, str], settings: Settings) -> tuple[float, float, int]:
    """Nothing for parsing, the user CPU time of a check of all files of a program, and the number of findings."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".git").mkdir()
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        start, found = user_time(), 0
        with garbage_collection_paused():
            for name, text in files.items():
                found += len(check(Source.from_text(text, str(Path(folder) / name)), settings))
        return 0.0, user_time() - start, found


def exponent(times: list[float]) -> float:
    """How the last time grows with the last doubling; NaN if they are too short to tell."""
    if len(times) < 2 or times[-1] < SHORTEST:
        return math.nan
    return math.log2(times[-1] / max(times[-2], 0.01))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shape", nargs="*", help=f"default: all of {', '.join([*SHAPES, *PROGRAMS])}")
    parser.add_argument("--sizes", type=int, default=4, help="number of sizes, each twice the one before (default 4)")
    parser.add_argument("--scale", type=float, default=1, help="factor of the smallest size (default 1)")
    parser.add_argument("--limit", type=float, default=60, help="no larger size after so many seconds (default 60)")
    parser.add_argument("--bound", type=float, default=1.2, help="the largest exponent that is accepted (default 1.2)")
    options = parser.parse_args()
    if unknown := [name for name in options.shape if name not in (*SHAPES, *PROGRAMS)]:
        parser.error(f"unknown shape: {', '.join(unknown)}")
    settings = Settings(codes=frozenset(rule.code for rule in (*load_rules(), *ENGINE_RULES)), timeout=0)
    measure("import torch\ntorch.compile(f)\n", settings)  # imports the rules
    above = []
    for name in options.shape or [*SHAPES, *PROGRAMS]:
        smallest = (SHAPES.get(name) or PROGRAMS[name])[0]
        parsing: list[float] = []
        checking: list[float] = []
        lines = found = 0
        for doubling in range(options.sizes):
            n = max(1, round(smallest * options.scale)) * 2**doubling
            if name in SHAPES:
                text = SHAPES[name][1](n)
                lines = text.count("\n")
                parsed, checked, found = measure(text, settings)
            else:
                files = PROGRAMS[name][1](n)
                lines = sum(text.count("\n") for text in files.values())
                parsed, checked, found = measure_program(files, settings)
            parsing.append(parsed)
            checking.append(checked)
            if parsed + checked > options.limit:
                break
        grown = exponent(checking)
        if grown > options.bound:
            above.append(name)
        print(
            f"{name:24} {lines:6} lines {found:6} findings"
            f"  parse {' '.join(f'{one:6.2f}' for one in parsing)}  exponent {exponent(parsing):5.2f}"
            f"  rest {' '.join(f'{one:6.2f}' for one in checking)}  exponent {grown:5.2f}",
            flush=True,
        )
    if above:
        print(f"above {options.bound}: {', '.join(above)}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
