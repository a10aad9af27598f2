"""``--output-format concise``: one line per finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.conflicts import applicable
from torchlint.output.text import location, marks, printable


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """``path:row:column: CODE name: message``; ``[*]`` marks what ``--fix`` would fix, ``[info]`` the severity info."""
    for result in results:
        for diagnostic in result.diagnostics:
            assert result.source is not None
            mark = marks(diagnostic, fixable=applicable(diagnostic, unsafe))
            place = location(result.source, diagnostic)
            line = f"{place}: {diagnostic.code} {mark}{diagnostic.name}: {printable(diagnostic.message)}"
            print(line, file=out)
