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
    "grouped": "grouped",
    "json": "json",
    "json-lines": "json_lines",
    "sarif": "sarif",
    "github": "github",
    "gitlab": "gitlab",
    "junit": "junit",
    "pylint": "pylint",
    "rdjson": "rdjson",
}
#: Those that a person reads, where a summary closes the report.
FOR_PEOPLE = frozenset({"full", "concise", "grouped"})
#: Those that name each file once, and whose readers put findings in an order of their own.
BY_FILE = frozenset({"gitlab", "junit", "sarif"})
#: Name -> the module that writes statistics in it.
STATISTICS = dict.fromkeys(FOR_PEOPLE, "text") | {"json": "json", "json-lines": "json_lines"}


def write(name: str, results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write the findings of a run; ``unsafe`` is whether unsafe fixes are asked for too."""
    module = importlib.import_module(f"torchlint.output.{FORMATS[name]}")
    module.write(results, out, unsafe=unsafe)


def write_statistics(name: str, results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write how often each rule was violated, in a format of ``STATISTICS``."""
    module = importlib.import_module(f"torchlint.output.{STATISTICS[name]}")
    module.write_statistics(results, out, unsafe=unsafe)
