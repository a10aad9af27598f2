"""Ranges of characters in the text of a file: places, and edits that replace them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The characters ``[start, end)`` of a file, as offsets into its decoded text."""

    start: int
    end: int
    path: str = ""  #: empty: the file of the finding


@dataclass(frozen=True)
class Edit:
    """Replace the characters ``[start, end)`` of the source text by ``content``.

    Offsets count characters of the decoded text (no byte-order mark), newlines as they are in the file.
    """

    start: int
    end: int
    content: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    """``text`` with sorted edits that do not overlap made in it."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += text[position : edit.start], edit.content
        position = edit.end
    return "".join([*parts, text[position:]])
