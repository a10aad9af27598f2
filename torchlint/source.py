"""One file's text: decoding and encoding without loss, and offsets to rows and columns."""

from __future__ import annotations

import codecs
import os
import re
import stat
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

#: Larger files hold data, not programs; parsing one would take minutes and gigabytes.
MAX_BYTES = 10 * 1024 * 1024

# PEP 263: in a comment on one of the first two lines, the first of which is a comment or blank.
_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)")
# What Python takes as the end of a line; str.splitlines would also split at form feeds and the like.
_NEWLINE = re.compile(r"\r\n|\r|\n")


class SourceError(Exception):
    """The content of a file is not Python source text; the text is a one-line reason."""


@dataclass(frozen=True)
class Source:
    """The text of one file as it stands there: newlines kept, byte-order mark set aside."""

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @classmethod
    def read(cls, path: str) -> Source:
        """Read a file. Raises OSError, or SourceError if it is not Python source text."""
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"not a regular file (standard input is read with `-`): {path}")
            if status.st_size > MAX_BYTES:
                raise SourceError(f"the file is too large: {status.st_size:,} bytes (the limit is {MAX_BYTES:,})")
            return cls.from_bytes(file.read(), path)

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "-") -> Source:
        """Decode as Python does: byte-order mark, PEP 263 cookie, else UTF-8. Raises SourceError."""
        bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if bom else data
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SourceError("the file is UTF-16, which Python does not read: save it as UTF-8")
        if b"\0" in body:
            raise SourceError("the file is binary: it holds NUL bytes")
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
        return cls(path, text, encoding, bom)

    @classmethod
    def from_text(cls, text: str, path: str = "-") -> Source:
        """A source that is already decoded."""
        return cls(path, text)

    def with_text(self, text: str) -> Source:
        """The same file with another text."""
        return Source(self.path, text, self.encoding, self.bom)

    def encode(self, text: str) -> bytes:
        """``text`` as this file's bytes. Raises SourceError if it does not fit into the encoding."""
        try:
            body = text.encode(self.encoding)
        except UnicodeError as error:
            raise SourceError(f"the text does not fit into {self.encoding}: {error}") from error
        return codecs.BOM_UTF8 + body if self.bom else body

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        return (0, *(match.end() for match in _NEWLINE.finditer(self.text)))

    def location(self, offset: int) -> tuple[int, int]:
        """Row and column of a character, both from 1."""
        row = bisect_right(self.line_starts, offset)
        return row, offset - self.line_starts[row - 1] + 1

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
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError) as error:
        raise SourceError(f"the coding comment names an unknown encoding: {name}") from error
    if not codec._is_text_encoding:
        raise SourceError(f"the coding comment names an encoding that is not for text: {name}")
    return "utf-8" if codec.name in ("utf-8", "utf-8-sig") else codec.name
