"""The output formats, one file each with ``write(results, out, *, unsafe)``; ``settings.formats`` names them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from torchlint.settings.formats import FOR_PEOPLE

if TYPE_CHECKING:
    from torchlint.engine.results import Result


def write(name: str, results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write the findings of a run in the format ``name``; ``unsafe`` is whether unsafe fixes are asked for too."""
    module = importlib.import_module(f"torchlint.output.{_module_of(name)}")
    module.write(results, out, unsafe=unsafe)


def write_statistics(name: str, results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write how often each rule was violated, in a format of ``STATISTICS``."""
    module = importlib.import_module(f"torchlint.output.{'text' if name in FOR_PEOPLE else _module_of(name)}")
    module.write_statistics(results, out, unsafe=unsafe)


def _module_of(name: str) -> str:
    return name.replace("-", "_")
