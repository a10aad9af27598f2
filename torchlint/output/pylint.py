"""``--output-format pylint``: one line per finding, as pylint once printed them and Jenkins reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.output.places import findings, message, span
from torchlint.output.text import display_path, printable


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """``path:row: [CODE] message``."""
    for source, diagnostic in findings(results):
        place = span(source, diagnostic)
        row = place.row if place else 1
        said = printable(message(source, diagnostic))
        print(f"{display_path(source.path)}:{row}: [{diagnostic.code}] {said}", file=out)
