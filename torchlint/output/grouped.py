"""``--output-format grouped``: the findings of each file under its name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.conflicts import applicable
from torchlint.output.places import findings
from torchlint.output.text import display_path, in_cell, marks, printable


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write all findings; ``[*]`` marks what ``--fix`` would fix, ``[info]`` the severity info."""
    for path, group in groupby(findings(results), key=lambda found: found[0].path):
        print(f"{display_path(path)}:", file=out)
        found = list(group)
        positions = [source.position(diagnostic.start) for source, diagnostic in found]
        places = [f"{in_cell(cell)}{row}:{column}" for cell, row, column in positions]
        width = max(map(len, places))
        for place, (_, diagnostic) in zip(places, found, strict=True):
            mark = marks(diagnostic, fixable=applicable(diagnostic, unsafe))
            what = f"{diagnostic.code} {mark}{diagnostic.name}: {printable(diagnostic.message)}"
            print(f"  {place:<{width}} {what}", file=out)
        print(file=out)
