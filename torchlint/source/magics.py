"""IPython's magics and shell lines, masked so that what is left is Python with every character in its place."""

from __future__ import annotations

import re
from typing import NamedTuple

from torchlint.source.lexemes import COMMENT, NEWLINE, STRING
from torchlint.source.parsing import ParseError, python_tree

#: Cell magics whose cell is Python all the same. Any other contains another language, or text for a file.
PYTHON_CELLS = frozenset(
    "capture debug ipytest memit prun pyinstrument pypy python python3 scalene snakeviz time timeit wandb".split()
)
#: Line magics that run the statement which follows them.
_RUNNERS = re.compile(r"%(?:time|timeit|prun|memit)(?=[ \t])")
_CELL_MAGIC = re.compile(rf"(?:[ \t\f]*{NEWLINE})*(?P<row>%%(?P<name>\w+)[^\r\n]*)")
# At the beginning of a logical line none of these can be Python.
_ESCAPE = re.compile(r"[!%?,;/]")
# Shell words that IPython takes without a `%`; in Python no word follows a name, but for the operators.
_AUTOMAGIC = re.compile(
    r"(?:cat|cd|conda|cp|git|ls|mamba|micromamba|mkdir|mv|pip|pip3|rm|rmdir|uv|wget)[ \t]+(?:--?\w+[ \t]+)*"
    r"(?!(?:in|is|and|or|if|not|for)\b)[\w.~$\"']"
)
# A cell without any of these contains no magic.
_MAYBE = re.compile(rf"(?:^|\r)[ \t\f]*(?:[!%,;/]|{_AUTOMAGIC.pattern})|\?|=[ \t]*[!%]", re.MULTILINE)
_INDENT = re.compile(r"[ \t\f]*")
_ROW = re.compile(r"[^\r\n]*")
# A row, and those that a backslash at its end joins to it.
_JOINED_ROWS = re.compile(rf"(?:[^\r\n]*\\{NEWLINE})*[^\r\n]*")
_TOKEN = re.compile(
    rf"""{COMMENT}
    | (?P<string>{STRING})
    | (?P<open>[(\[{{])
    | (?P<close>[)\]}}])
    | \\{NEWLINE}
    | (?P<newline>{NEWLINE})
    | (?P<assigned>=[ \t]*(?=%|!(?!=)))
    | (?P<code>[^\s\#"'()\[\]{{}}\\=]+ | [=\\])
    """,
    re.VERBOSE | re.DOTALL,
)


class Masked(NamedTuple):
    """A cell's text as Python."""

    code: str  #: as long as the text, newlines at the same places
    #: what was masked, each with whether it is a cell magic: an edit must leave it as it is
    magics: tuple[tuple[bool, str], ...]
    foreign: bool = False  #: the cell contains no Python at all


def mask(text: str) -> Masked:
    """``text`` with its magics masked: each becomes an unknown name, a cell of another language blank."""
    if not _MAYBE.search(text):
        return Masked(text, ())
    code: list[str] = []
    magics: list[tuple[bool, str]] = []
    position = 0
    while (match := _CELL_MAGIC.match(text, position)) is not None:
        if match["name"] not in PYTHON_CELLS:
            return Masked(blank(text), ((True, text),), foreign=True)
        code += text[position : match.start("row")], _name(match["row"])
        magics.append((True, match["row"]))
        position = match.end()
    for start, end, kept in _magics(text, position):
        code += text[position:start], _name(text[start:kept], closed=kept < end)
        magics.append((False, text[start:kept]))
        position = kept
    return Masked("".join([*code, text[position:]]), tuple(magics))


def blank(text: str) -> str:
    """White space as long as ``text``, with its newlines."""
    return re.sub(r"[^\r\n]", " ", text)


def _name(magic: str, *, closed: bool = False) -> str:
    """A name as long as the first row of a magic (followed by ``;``, if ``closed``), and blank rows."""
    length = _ROW.match(magic).end()  # type: ignore[union-attr]
    name = "_" * (length - 1) + ";" if closed else "_" * length
    return name + blank(magic[length:])


def _magics(text: str, position: int) -> list[tuple[int, int, int]]:
    """Where each line magic starts and ends, and where in it Python begins (its end, if there is none)."""
    found = []
    while position < len(text):
        start = _INDENT.match(text, position).end()  # type: ignore[union-attr]
        if _ESCAPE.match(text, start) or _AUTOMAGIC.match(text, start):
            end = _JOINED_ROWS.match(text, start).end()  # type: ignore[union-attr]
            found.append((start, end, _python_in(text, start, end)))
            position = end + 1  # in the middle of `\r\n` an empty line begins, which does no harm
            continue
        depth, last, asks = 0, start, False
        position = len(text)
        for token in _TOKEN.finditer(text, start):
            kind = token.lastgroup
            if kind == "open":
                depth += 1
            elif kind == "close":
                depth = max(depth - 1, 0)
            elif kind == "assigned" and depth == 0:
                end = _JOINED_ROWS.match(text, token.end()).end()  # type: ignore[union-attr]
                found.append((token.end(), end, end))
                position = end + 1
                asks = False
                break
            elif kind == "newline" and depth == 0:
                position = token.end()
                break
            if kind in ("open", "close", "code", "string", "assigned"):
                last, asks = token.end(), kind == "code" and token[0].endswith("?")
        if asks and depth == 0:
            found.append((start, last, last))
    return found


def _python_in(text: str, start: int, end: int) -> int:
    """Where the statement begins that a magic such as ``%time`` runs; ``end`` if there is none."""
    runner = _RUNNERS.match(text, start, end)
    if runner is None:
        return end
    statement = text[runner.end() : end].strip()
    if statement.startswith("-"):
        return end  # options
    try:
        body = python_tree(statement).body
    except ParseError:
        return end
    return end if not body or any(hasattr(item, "body") for item in body) else runner.end()
