"""One file's text: decoding and encoding without loss, and offsets to rows and columns."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint.source.lexemes import line_starts
from torchlint.source.ranges import apply

if TYPE_CHECKING:
    from torchlint.source.parsing import ParseError
    from torchlint.source.ranges import Edit

# PEP 263: in a comment on one of the first two lines, the first of which is a comment or blank.
_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)")
#: Encodings that packages add for syntax that Python has by now, such as f-strings: the text is UTF-8.
_BACKPORTS = frozenset({"future_fstrings", "future_annotations"})


class SourceError(Exception):
    """The content of a file is not Python source text; the text is a one-line reason."""


class Position(NamedTuple):
    """A place as users name it: row and column from 1, in a notebook those of the cell."""

    cell: int | None  #: counted from 1 over all cells of the notebook; None: no notebook
    row: int
    column: int


@dataclass(frozen=True)
class Cell:
    """Where the text of a notebook's code cell lies in the text of its source: the characters ``[start, end)``."""

    index: int  #: counted from 1 over all cells of the notebook, those with prose as well
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text of one file as it is there: newlines kept, byte-order mark set aside.

    Of a notebook (`Notebook`) it is the text of the code cells, with a newline between them.
    """

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    cells: tuple[Cell, ...] = ()  #: the code cells of a notebook, in order

    @classmethod
    def decoded(cls, data: bytes, path: str) -> Source:
        """Decode as Python does: byte-order mark, PEP 263 cookie, else UTF-8. Raises SourceError."""
        bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if bom else data
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SourceError("the file is UTF-16, which Python does not read: save it as UTF-8")
        if b"\0" in body:
            raise SourceError("the file is binary: it contains NUL bytes")
        encoding = _encoding(body)
        if bom and encoding != "utf-8":
            raise SourceError(f"the file has a UTF-8 byte-order mark, but its coding comment says {encoding}")
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            row = len(re.findall(rb"\r\n|\r|\n", body[: error.start])) + 1
            raise SourceError(f"the file is not {encoding}: byte 0x{body[error.start]:02x} on line {row}") from error
        except (UnicodeError, ValueError) as error:
            raise SourceError(f"the file is not {encoding}: {error}") from error
        return Source(path, text, encoding, bom)

    @classmethod
    def from_text(cls, text: str, path: str = "-") -> Source:
        """Python text that is already decoded."""
        return Source(path, text)

    # -- what is analysed

    @property
    def code(self) -> str:
        """The text as it is analysed: as long as ``text``, the same but for what is no Python in a notebook."""
        return self.text

    @property
    def units(self) -> tuple[str, ...]:
        """The pieces that must be Python each by itself: the cells of a notebook, else all of ``code``."""
        return (self.code,)

    @property
    def broken(self) -> tuple[ParseError, ...]:
        """Why cells of a notebook are left out of ``code``, with rows of the whole text."""
        return ()

    # -- fixes

    def fitted(self, edits: Sequence[Edit]) -> Sequence[Edit] | None:
        """The edits of one fix as this kind of file can take them; None where it cannot."""
        return edits

    def edited(self, edits: Sequence[Edit]) -> Source:
        """The same file with sorted edits, which do not overlap, made in it."""
        return replace(self, text=apply(self.text, edits))

    def to_bytes(self) -> bytes:
        """The content of the file. Raises SourceError if the text does not fit into the encoding."""
        return self.encode(self.text)

    def encode(self, text: str) -> bytes:
        """``text`` as this file's bytes. Raises SourceError if it does not fit into the encoding."""
        try:
            body = text.encode(self.encoding)
        except UnicodeError as error:
            raise SourceError(f"the text does not fit into {self.encoding}: {error}") from error
        return codecs.BOM_UTF8 + body if self.bom else body

    # -- places

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        return tuple(line_starts(self.text))

    def location(self, offset: int) -> tuple[int, int]:
        """Row and column of a character, both from 1."""
        row = bisect_right(self.line_starts, offset)
        return row, offset - self.line_starts[row - 1] + 1

    def offset(self, row: int, column: int) -> int:
        """The offset of a place given as ``location`` gives it."""
        return self.line_starts[row - 1] + column - 1

    def cell_at(self, offset: int) -> Cell | None:
        """The cell that contains a character, or ends before it; None if this is not a notebook."""
        return (
            self.cells[max(bisect_right(self.cells, offset, key=lambda cell: cell.start) - 1, 0)]
            if self.cells
            else None
        )

    def cell(self, index: int) -> Cell:
        """The code cell with this number. Raises KeyError."""
        for cell in self.cells:
            if cell.index == index:
                return cell
        raise KeyError(index)

    def position(self, offset: int) -> Position:
        """The place of a character as users name it."""
        row, column = self.location(offset)
        cell = self.cell_at(offset)
        return Position(cell.index if cell else None, row - self.rows_at(offset)[0] + 1, column)

    def rows_at(self, offset: int) -> tuple[int, int]:
        """First and last row of the cell that contains a character; of the whole text, if this is not a notebook."""
        cell = self.cell_at(offset)
        if cell is None:
            return 1, len(self.line_starts)
        return self.location(cell.start)[0], self.location(cell.end)[0]

    def line(self, row: int) -> str:
        """The text of a row (from 1), without its newline."""
        start = self.line_starts[row - 1]
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


def _encoding(body: bytes) -> str:
    """The codec of a text, by its PEP 263 cookie."""
    match = _COOKIE.match(body)
    if match is None:
        first = _BLANK.match(body)
        match = _COOKIE.match(body, first.end()) if first else None
    if match is None:
        return "utf-8"
    name = match[1].decode("ascii", "replace")
    if name.lower().replace("-", "_") in _BACKPORTS:
        return "utf-8"
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError) as error:
        raise SourceError(f"the coding comment names an unknown encoding: {name}") from error
    if not codec._is_text_encoding:  # noqa: SLF001 - codecs has no public name for it
        raise SourceError(f"the coding comment names an encoding that is not for text: {name}")
    return "utf-8" if codec.name in ("utf-8", "utf-8-sig") else codec.name
