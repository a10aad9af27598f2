"""``--timing``: where the CPU time of a run went, by phase, rule and file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.output.text import display_path, plural
from torchlint.source.timing import Timing

#: So many files are listed, the slowest first.
_FILES = 10


def write(results: Sequence[Result], elapsed: float, out: TextIO) -> None:
    """Write the times of a run that took ``elapsed`` seconds, as all its processes recorded them."""
    timed = [result for result in results if result.timing is not None]
    total = Timing()
    for result in timed:
        total.add(result.timing or Timing())
    everything = sum(total.seconds.values())
    print(f"\n{everything:.2f} s of CPU time for the analysis of files; {elapsed:.2f} s elapsed in all", file=out)
    for name, spent in sorted(total.seconds.items(), key=lambda item: -item[1]):
        print(f"{spent:9.2f} s {spent / everything if everything else 0:6.1%}  {name}", file=out)
    print(f"{len(results) - len(timed)} of {plural(len(results), 'file')} taken from the cache", file=out)
    if timed:
        print(
            f"{total.counts['pieces parsed']:,} pieces of {total.counts['characters parsed']:,} characters parsed; "
            f"the files have {total.counts['characters']:,}",
            file=out,
        )
    slowest = sorted(timed, key=lambda result: -sum((result.timing or total).seconds.values()))[:_FILES]
    if slowest:
        print("Slowest files (the first of a program pays for what its files share):", file=out)
    for result in slowest:
        spent = sum((result.timing or total).seconds.values())
        print(f"{spent:9.2f} s         {display_path(result.path)}", file=out)
