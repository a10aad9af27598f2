"""``--output-format full``: each finding with its place in the code, the reason, the fix and the evidence."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic, Severity
from torchlint.output.colour import console, is_coloured, terminal_width
from torchlint.output.text import closing_remarks, location, marks, noted, printable, share_in_words
from torchlint.source import reading
from torchlint.source.ranges import Place
from torchlint.source.source import Source

#: Where there is no terminal to fit: wider than code should be, narrow enough to read.
_WIDTH = 140
_NARROWEST = 40
_TAB = "    "
#: A span of more rows is shown by its first rows and its last.
_MAX_ROWS = 5

#: A line as pieces of text with a style each.
Line = list[tuple[str, str]]

_GUTTER = "blue"
_BOLD = "bold"


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings, in colour where ``is_coloured`` says so."""
    if not any(result.diagnostics for result in results):
        return
    write_line = _coloured(out) if is_coloured(out) else _plain(out)
    linked = out.isatty() and is_coloured(out)
    width = terminal_width() if out.isatty() or "COLUMNS" in os.environ else _WIDTH
    for result in results:
        for diagnostic in result.diagnostics:
            assert result.source is not None
            for line in render(result.source, diagnostic, max(width, _NARROWEST), linked=linked):
                write_line(line)


def _plain(out: TextIO) -> Callable[[Line], None]:
    def write_line(line: Line) -> None:
        out.write("".join(text for text, _ in line) + "\n")

    return write_line


def _coloured(out: TextIO) -> Callable[[Line], None]:
    from rich.text import Text

    terminal = console(out)

    def write_line(line: Line) -> None:
        terminal.print(Text.assemble(*line), soft_wrap=True)

    return write_line


def render(source: Source, diagnostic: Diagnostic, width: int, *, linked: bool = False) -> Iterator[Line]:
    """The lines that show one finding; ``linked``: places are links to their files, for a terminal."""
    place = _link(source, Place(diagnostic.start, diagnostic.end)) if linked else ""
    colour = "yellow" if diagnostic.severity is Severity.WARNING else "cyan"
    yield [
        (location(source, diagnostic), _BOLD + place),
        (": ", ""),
        (diagnostic.code, f"bold {colour}"),
        (f" {marks(diagnostic, fixable=False)}{diagnostic.name}", colour),
        (f": {printable(diagnostic.message)}", ""),
    ]
    first = source.location(diagnostic.start)[0]
    last = max(first, source.location(max(diagnostic.start, diagnostic.end - 1))[0])
    top, bottom = source.rows_at(diagnostic.start)
    margin = len(str(min(last + 1, bottom) - top + 1))
    if source.text:
        yield from _frame(source, diagnostic, (first, last), width, margin, colour)
    profile = [] if diagnostic.share is None else [(f"profile: {share_in_words(diagnostic.share)}", "magenta")]
    places = [note.place for note in diagnostic.notes]
    links = [_link(source, item) if linked and item is not None else "" for item in places]
    notes = [(noted(source, diagnostic, note), link) for note, link in zip(diagnostic.notes, links, strict=True)]
    for remark, style in (*profile, *notes, *closing_remarks(diagnostic)):
        room = max(width - margin - 3, 30)
        wrapped = textwrap.wrap(printable(remark), room, break_long_words=False, break_on_hyphens=False) or [""]
        yield [(f"{' ' * margin} = ", _GUTTER), (wrapped[0], style)]
        for more in wrapped[1:]:
            yield [(f"{' ' * margin}   {more}", style)]
    yield []


def _link(source: Source, place: Place) -> str:
    """The part of a style that links to a place of a file; empty if there is no such file, as for standard input."""
    text, path = reading.containing(source, place), os.path.abspath(place.path or source.path)
    if not os.path.isfile(path):
        return ""
    row = f"#{text.position(place.start).row}" if text is not None and not reading.is_notebook(path) else ""
    return f" link {Path(path).as_uri()}{row}"


def _frame(
    source: Source, diagnostic: Diagnostic, span: tuple[int, int], width: int, margin: int, colour: str
) -> Iterator[Line]:
    """The code around the span, which is underlined."""
    first, last = span
    top, bottom = source.rows_at(diagnostic.start)
    before = first - 1 if first > top and source.line(first - 1).strip() else first
    after = last + 1 if last < bottom and source.line(last + 1).strip() else last
    blank: Line = [(f"{' ' * margin} |", _GUTTER)]
    room = width - margin - 3
    offset = _offset(source, diagnostic, first, room)
    skipped = range(first + _MAX_ROWS - 2, last) if last - first >= _MAX_ROWS else range(0)
    yield blank
    for row in range(before, after + 1):
        if row in skipped:
            if row == skipped[0]:
                yield [(f"{'...':>{margin}} |", _GUTTER)]
            continue
        cells = _cells(source.line(row))
        yield [(f"{row - top + 1:>{margin}} | ", _GUTTER), (_window(cells, offset, room), "")]
        if row == first or (first < row <= last and source.line(row).strip()):
            yield from _underline(source, diagnostic, row, row == last, (offset, room), margin, colour)
    yield blank


def _underline(
    source: Source, diagnostic: Diagnostic, row: int, labelled: bool, window: tuple[int, int], margin: int, colour: str
) -> Iterator[Line]:
    offset, room = window
    text = source.line(row)
    line_start = source.line_starts[row - 1]
    start = max(diagnostic.start - line_start, len(text) - len(text.lstrip()))
    end = max(min(diagnostic.end - line_start, len(text)), start + 1)
    left = max(_columns(text[:start]) - offset, 0)
    right = min(max(_columns(text[:end]) - offset, left + 1), room)
    if left >= room:
        return
    gutter = (f"{' ' * margin} | ", _GUTTER)
    label = printable(diagnostic.label) if labelled else ""
    marks = (" " * left + "^" * (right - left), f"bold {colour}")
    if label and right + 1 + _columns(label) > room and left + right > 0:
        yield [gutter, marks]
        indent = min(left, max(room - _columns(label), 0))
        yield [gutter, (" " * indent + label, colour)]
    else:
        yield [gutter, marks, (f" {label}" if label else "", colour)]


def _offset(source: Source, diagnostic: Diagnostic, row: int, room: int) -> int:
    """By how many columns the frame is moved so that the start of the span is seen."""
    line_start = source.line_starts[row - 1]
    text = source.line(row)
    start = _columns(text[: diagnostic.start - line_start])
    end = _columns(text[: max(diagnostic.end - line_start, 0)])
    return 0 if min(end, start + room // 2) <= room else max(start - room // 4, 0)


def _cells(text: str) -> list[tuple[str, int]]:
    """The characters as they are shown, each with its width in columns."""
    if text.isascii():
        return [(_TAB, 4) if char == "\t" else (printable(char), 1) for char in text]
    from rich.cells import cell_len

    return [(_TAB, 4) if char == "\t" else (printable(char), cell_len(printable(char))) for char in text]


def _columns(text: str) -> int:
    return sum(width for _, width in _cells(text))


def _window(cells: list[tuple[str, int]], offset: int, room: int) -> str:
    """The part of a line that is seen; what is cut off is marked."""
    shown = ""
    column = 0
    for text, width in cells:
        if column + width > offset + room:
            return shown[: -1 if shown else None] + "…"
        if column >= offset:
            shown += text
        elif column + width > offset:  # a wide character, or a tab, that is half outside
            shown += " " * (column + width - offset)
        column += width
    return shown
