"""Which top-level statements of a file contain an identifier, from its text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchlint.project.imports import Pieces
from torchlint.source.lexemes import COMMENT, STRING

_TOKEN = re.compile(
    rf"(?P<prefix>(?<!\w)[A-Za-z]{{1,2}}(?=[\"']))?(?P<string>{STRING})|{COMMENT}|(?P<word>\w+)", re.VERBOSE | re.DOTALL
)
_WORD = re.compile(r"[^\W\d]\w*")


def index(text: str, pieces: Pieces) -> Mapping[str, tuple[int, ...]]:
    """Identifier -> the rows of the top-level statements that contain it.

    Comments and strings do not count, except for f-strings.
    """
    found: dict[str, tuple[int, ...]] = {}
    ends = [*pieces.starts[1:], len(text)]
    for start, end, row in zip(pieces.starts, ends, pieces.rows, strict=True):
        for word in _words(text, start, end):
            found[word] = (*found.get(word, ()), row)
    return found


def _words(text: str, start: int, end: int) -> set[str]:
    """The identifiers in a part of a text."""
    words: set[str] = set()
    for match in _TOKEN.finditer(text, start, end):
        word = match["word"]
        if word is not None:
            words.add(word)
        elif match["prefix"] is not None and match["prefix"].lower() in _FORMATTED:
            words.update(_WORD.findall(match["string"]))
    return words


_FORMATTED = ("f", "rf", "fr", "t", "rt", "tr")
