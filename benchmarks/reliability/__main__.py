"""``python -m benchmarks.reliability FOLDER...``: what must hold of every file, asked of real code and its mutations.

    python -m benchmarks.reliability wheels/ $(python -c "import test; print(test.__path__[0])")
    python -m benchmarks.reliability --mutations 50000 wheels/

Nothing is written, and nothing that is checked is imported or run. What does not hold is listed, with a count at the
end; the content of a mutated file that shows it is kept in the folder of ``--keep``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from benchmarks.reliability.invariants import Outcome, examined
from benchmarks.reliability.mutations import mutated

#: Characters of files that are mutated: what takes long says little.
_MUTATED = 20_000
_CHUNK = 16
#: Files without any of these words concern hardly any rule.
_WORDS = (b".cuda", b".to(", b"DataLoader", b"no_grad", b"compile")


def ask(path: Path, seed: int | None = None) -> Outcome:
    """Ask of one file within its project, or of a mutation of it by itself, what must hold."""
    data = path.read_bytes()
    if seed is None:
        outcome = examined(data, str(path), str(path))
    else:
        outcome = examined(mutated(data, Random(seed)), f"mutated{path.suffix}", f"{path} ({seed})")
    if seed is None or not outcome.violations:
        outcome.content = b""
    return outcome


def _ask_chunk(chunk: Sequence[tuple[Path, int | None]]) -> list[Outcome]:
    return [ask(path, seed) for path, seed in chunk]


def _inputs(files: Sequence[Path], mutations: int, seed: int) -> Iterator[tuple[Path, int | None]]:
    if not mutations:
        yield from ((path, None) for path in files)
        return
    random = Random(seed)
    small = [path for path in files if path.stat().st_size <= _MUTATED and _concerns(path)]
    for number in range(mutations):
        yield random.choice(small), seed + number


def _concerns(path: Path) -> bool:
    content = path.read_bytes()
    return b"torch" in content and any(word in content for word in _WORDS)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="N mutations of files, not the files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for mutated files that violate something")
    arguments = parser.parse_args()
    endings = (".py", ".ipynb")
    files = sorted(path for folder in arguments.folders for path in folder.rglob("*") if path.suffix in endings)
    inputs = list(_inputs(files, arguments.mutations, arguments.seed))
    chunks = [inputs[start : start + _CHUNK] for start in range(0, len(inputs), _CHUNK)]
    wrong: list[Outcome] = []
    findings = fixes = changed = 0
    slowest = Outcome("")
    with ProcessPoolExecutor(arguments.processes) as pool:
        for outcome in (one for chunk in pool.map(_ask_chunk, chunks) for one in chunk):
            findings, fixes, changed = findings + outcome.findings, fixes + outcome.fixes, changed + bool(outcome.fixes)
            slowest = max(slowest, outcome, key=lambda one: one.seconds)
            if outcome.violations:
                wrong.append(outcome)
                for violation in outcome.violations:
                    print(f"{outcome.name}: {violation}", flush=True)
                if arguments.keep and outcome.content:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    (arguments.keep / f"{len(wrong)}.py").write_bytes(outcome.content)
    print(f"{len(inputs):,} inputs, {findings:,} findings, {fixes:,} fixes in {changed:,} of them")
    print(f"slowest: {slowest.seconds:.1f} s, {slowest.name}")
    print(f"{len(wrong):,} inputs of which something does not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
