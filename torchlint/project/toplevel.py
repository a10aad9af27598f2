"""The top level of a text, without most of what is in its functions and classes: it takes less time to parse."""

from __future__ import annotations

import re
from itertools import pairwise

from torchlint.source.lexemes import COMMENT, STRING

_QUOTED = re.compile(rf"({COMMENT}|{STRING})", re.VERBOSE | re.DOTALL)
_TRIPLE = ('"""', "'''")
#: A row that is not indented, with the end of the row above.
_ROW = re.compile(r"\n[^\s#)\]}]")
_DEFINITION = re.compile(r"(?:(?:async[ \t]+)?def|class)[ \t]+\w+")
#: A statement that says something of the top level or of other files, wherever it is.
_NEEDED = re.compile(r"(?:^|[;:])[ \t]*(?:from|import|global)\b", re.MULTILINE)


def top_level(text: str) -> str:
    """A text with the same imports and names of the top level in the same rows, if ``text`` is Python.

    Functions and classes are empty, except for those that import something or bind global names. If a row that is not
    indented continues a statement of a function, the result is not Python.
    """
    parts = _QUOTED.split(text)
    for index in range(1, len(parts), 2):
        part = parts[index]
        if part.startswith(_TRIPLE):
            parts[index] = f"{part[:3]}{_newlines(part)} {part[:3]}"
    code = "".join(parts)
    if "\r" in code or "\f" in code or "\\\n" in code:  # rows may begin otherwise than they seem to
        return text
    starts = [0, *(match.start() + 1 for match in _ROW.finditer(code)), len(code)]
    return "".join(_shortened(code[start:end]) for start, end in pairwise(starts))


def _shortened(code: str) -> str:
    """What is between two rows that are not indented, in as many rows."""
    definition = _DEFINITION.match(code)
    if definition is None or (("import" in code or "global" in code) and _NEEDED.search(code)):
        return code
    return f"{definition[0]}(): pass{_newlines(code)}"


def _newlines(text: str) -> str:
    return "\n" * text.count("\n")
