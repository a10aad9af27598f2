"""The output formats, one file each with ``write(results, out, *, unsafe)``; here is which one a name means."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from torchlint.runner import Result

#: Name -> the module of ``torchlint.output`` that writes it.
FORMATS = {
    "full": "full",
    "concise": "concise",
    "json": "json",
}
#: Those that a person reads, where a summary closes the report.
FOR_PEOPLE = frozenset({"full", "concise"})


def write(name: str, results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write the findings of a run; ``unsafe`` is whether unsafe fixes are asked for too."""
    module = importlib.import_module(f"torchlint.output.{FORMATS[name]}")
    module.write(results, out, unsafe=unsafe)


def write_statistics(name: str, results: Sequence[Result], out: TextIO) -> None:
    """Write how often each rule was violated: as JSON, or as a table for people."""
    from torchlint.output import json, text

    if name == "json":
        json.write_statistics(results, out)
        return
    for line in text.statistics_lines(results):
        print(line, file=out)
