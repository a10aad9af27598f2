"""``python -m benchmarks.reliability FOLDER...``: what must hold of every file, asked of real and made-up ones.

    python -m benchmarks.reliability wheels/ $(python -c "import test; print(test.__path__[0])")
    python -m benchmarks.reliability --mutations 50000 wheels/
    python -m benchmarks.reliability --disguises 10000 wheels/
    python -m benchmarks.reliability --idioms 10000
    python -m benchmarks.reliability --syntax 10000

Nothing is written, and nothing that is checked is imported or run. What does not hold is listed, with a count at the
end; the content of an input that shows it is kept in the folder of ``--keep``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from benchmarks.reliability.inputs import Input, Kind, changed, generated, of_files
from benchmarks.reliability.invariants import Outcome

_CHUNK = 16


def _outcomes(chunk: Sequence[Input]) -> list[Outcome]:
    return [one.outcome() for one in chunk]


def _in_processes(inputs: Iterable[Input], processes: int) -> Iterator[Outcome]:
    inputs = iter(inputs)
    chunks = list(iter(lambda: list(islice(inputs, _CHUNK)), []))
    with ProcessPoolExecutor(processes) as pool:
        for outcomes in pool.map(_outcomes, chunks):
            yield from outcomes


def _inputs(arguments: argparse.Namespace) -> Iterator[Input]:
    endings = (".py", ".ipynb")
    files = sorted(path for folder in arguments.folders for path in folder.rglob("*") if path.suffix in endings)
    if arguments.idioms:
        yield from generated(Kind.IDIOMS, arguments.idioms, arguments.seed)
    if arguments.mutations:
        yield from changed(Kind.MUTATION, files, arguments.mutations, arguments.seed)
    if arguments.disguises:
        yield from changed(Kind.DISGUISE, files, arguments.disguises, arguments.seed)
    if not (arguments.idioms or arguments.mutations or arguments.disguises):
        yield from of_files(files)


def _report(outcomes: Iterable[Outcome], keep: Path | None) -> int:
    count = wrong = findings = fixes = fixed = 0
    slowest = Outcome("")
    for count, outcome in enumerate(outcomes, 1):
        findings, fixes, fixed = findings + outcome.findings, fixes + outcome.fixes, fixed + bool(outcome.fixes)
        slowest = max(slowest, outcome, key=lambda one: one.seconds)
        if outcome.violations:
            wrong += 1
            for violation in outcome.violations:
                print(f"{outcome.name}: {violation}", flush=True)
            if keep and outcome.content:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{wrong}.py").write_bytes(outcome.content)
        if count % 200 == 0:
            print(f"... {count:,} inputs, {findings:,} findings, {fixes:,} fixes in {fixed:,}", flush=True)
    print(f"{count:,} inputs, {findings:,} findings, {fixes:,} fixes in {fixed:,} of them")
    print(f"slowest: {slowest.seconds:.1f} s, {slowest.name}")
    print(f"{wrong:,} inputs of which something does not hold")
    return wrong


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="N mutations of files, not the files")
    parser.add_argument("--disguises", type=int, default=0, metavar="N", help="N files in odd formatting")
    parser.add_argument("--idioms", type=int, default=0, metavar="N", help="N programs from the grammar of idioms")
    parser.add_argument("--syntax", type=int, default=0, metavar="N", help="N programs of hypothesmith, in one process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for made-up files that violate something")
    arguments = parser.parse_args()
    if arguments.syntax:
        from benchmarks.reliability.syntax import outcomes  # hypothesmith is needed for this alone

        wrong = _report(outcomes(arguments.syntax, arguments.seed), arguments.keep)
    else:
        wrong = _report(_in_processes(_inputs(arguments), arguments.processes), arguments.keep)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
