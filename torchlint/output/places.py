"""Places of findings in formats for programs: paths, spans in the columns of a format, notebooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Applicability, Diagnostic, Fix
from torchlint.source.ranges import Edit, Place
from torchlint.source.source import Source


class Span(NamedTuple):
    """Rows and columns from 1; the end is behind the last character."""

    row: int
    column: int
    end_row: int
    end_column: int


def findings(results: Sequence[Result]) -> Iterator[tuple[Source, Diagnostic]]:
    """All findings of a run, each with the text it is about."""
    for result in results:
        for diagnostic in result.diagnostics:
            assert result.source is not None
            yield result.source, diagnostic


def absolute(path: str) -> str:
    """The path from the root; standard input stays ``-``."""
    return path if path == "-" else os.path.abspath(path)


def relative(path: str, folder: str) -> str | None:
    """The path from ``folder`` with slashes, on Windows too; None if it is not below it."""
    try:
        found = os.path.relpath(path, folder)
    except ValueError:  # another drive
        return None
    return None if found.split(os.sep, 1)[0] == os.pardir else found.replace(os.sep, "/")


def utf16(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    """The length of a text in bytes of UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def span(source: Source, place: Diagnostic | Edit | Place, width: Callable[[str], int] = len) -> Span | None:
    """The rows and columns of a place in ``source``; ``width`` measures text in the unit that the format counts in.

    None in a notebook: its rows are those of cells, and a program would take them for rows of the file.
    """
    if source.cells:
        return None
    return Span(*_point(source, place.start, width), *_point(source, place.end, width))


def message(source: Source, diagnostic: Diagnostic) -> str:
    """The message, in a notebook with its place, for formats that can name no cell."""
    position = source.position(diagnostic.start)
    where = "" if position.cell is None else f"cell {position.cell}, line {position.row}: "
    return where + diagnostic.message


def edits_to_offer(source: Source, diagnostic: Diagnostic) -> tuple[Edit, ...]:
    """The edits, in order, that a program may make in the file if its user says so."""
    fix: Fix | None = diagnostic.fix
    if fix is None or fix.applicability is Applicability.DISPLAY or source.cells:
        return ()
    return tuple(sorted(dict.fromkeys(fix.edits), key=lambda edit: (edit.start, edit.end)))


def _point(source: Source, offset: int, width: Callable[[str], int]) -> tuple[int, int]:
    row, _ = source.location(offset)
    return row, width(source.text[source.line_starts[row - 1] : offset]) + 1
