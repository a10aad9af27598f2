"""``# noqa`` and ``# torchlint: noqa`` comments: which diagnostics they silence, and which of them are stale."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from torchlint.findings.codes import UNUSED_SUPPRESSION
from torchlint.findings.diagnostic import Applicability, Diagnostic, Fix
from torchlint.source.lexemes import COMMENT, NOQA, STRING
from torchlint.source.ranges import Edit
from torchlint.source.source import Source

# Strings are matched only to be stepped over, so that a `#` within one is not a comment.
_LEXEME = re.compile(rf"(?P<comment>{COMMENT}) | {STRING}", re.VERBOSE | re.DOTALL)
_BACKSLASH = re.compile(r"\\(?=\r|\n|\Z)")
_CODE = r"[A-Z]+[0-9]+\b"
# No two alternatives match the same blanks, so that a long row of them is read once.
_BETWEEN = r"(?:[ \t]*(?:,|[^\S \t])[ \t]*|[ \t]+)"
_DIRECTIVE = re.compile(
    rf"""{NOQA}
    (?: (?P<colon>[ \t]*:[ \t]*) (?P<codes>{_CODE}(?:{_BETWEEN}{_CODE})*)? )?""",
    re.VERBOSE | re.IGNORECASE,
)
_EACH_CODE = re.compile(_CODE, re.IGNORECASE)


@dataclass
class Suppression:
    """One suppression comment."""

    row: int  #: 0: the whole file
    start: int
    end: int
    codes: tuple[str, ...]  #: empty: every code
    #: where each code is in the text
    spans: tuple[tuple[int, int], ...]
    used: set[str] = field(default_factory=set)

    def covers(self, diagnostic: Diagnostic, last: int) -> bool:
        """Whether the comment silences ``diagnostic``; ``last`` is the last row on which a comment counts for it."""
        if self.codes and diagnostic.code not in self.codes:
            return False
        return self.row == 0 or diagnostic.rows[0] <= self.row <= last


class CommentRows:
    """Which rows of a file can end with a comment: not those that end inside a string, nor with a backslash.

    Where one cannot, the comment on the next row that can counts for it, as in ruff.
    """

    def __init__(self, source: Source) -> None:
        commented: set[int] = set()
        self._closed: set[int] = set()
        self._next: dict[int, int] = {}  #: for closed rows that were asked about, the first one behind that is not
        for lexeme in _LEXEME.finditer(source.code):
            first = source.location(lexeme.start())[0]
            if lexeme["comment"] is not None:
                commented.add(first)
            else:
                self._closed.update(range(first, source.location(lexeme.end())[0]))
        for match in _BACKSLASH.finditer(source.code):
            row = source.location(match.start())[0]
            if row not in commented:
                self._closed.add(row)

    def first_from(self, row: int) -> int:
        """The first row, from ``row`` on, that can end with a comment."""
        passed = []
        while row in self._closed:
            passed.append(row)
            row = self._next.get(row, row + 1)
        self._next.update(dict.fromkeys(passed, row))
        return row


class _Index:
    """The suppressions of a file by their rows, and those for the whole file by their codes."""

    def __init__(self, suppressions: Sequence[Suppression]) -> None:
        self._on_rows = [suppression for suppression in suppressions if suppression.row]
        self._whole: dict[str, list[Suppression]] = {}  #: under "" those of every code
        for suppression in suppressions:
            if not suppression.row:
                for code in dict.fromkeys(suppression.codes or ("",)):
                    self._whole.setdefault(code, []).append(suppression)

    def on_rows(self, diagnostic: Diagnostic, last: int) -> list[Suppression]:
        """Those that silence ``diagnostic`` on one of its rows; ``last`` is the last on which a comment counts."""
        first = bisect_left(self._on_rows, diagnostic.rows[0], key=lambda suppression: suppression.row)
        behind = bisect_right(self._on_rows, last, key=lambda suppression: suppression.row)
        return [suppression for suppression in self._on_rows[first:behind] if suppression.covers(diagnostic, last)]

    def of_file(self, code: str) -> list[Suppression]:
        """Those that silence a code in the whole file."""
        return self._whole.get(code, []) + self._whole.get("", [])


def suppress(
    source: Source, diagnostics: Sequence[Diagnostic], checked: Collection[str], report_unused: bool
) -> list[Diagnostic]:
    """What is left of ``diagnostics``, and, if asked for, the suppressions of ``checked`` codes that nothing needed."""
    text = source.text
    if "noqa" not in text.lower():
        return list(diagnostics)
    if not diagnostics and not (report_unused and _names_one_of(text, checked)):
        return []
    suppressions = list(find_suppressions(source))
    index = _Index(suppressions)
    of_file = {code: index.of_file(code) for code in {diagnostic.code for diagnostic in diagnostics}}
    for code, silencing in of_file.items():
        for suppression in silencing:
            suppression.used.add(code)
    rows = CommentRows(source)
    left = []
    for diagnostic in diagnostics:
        last = rows.first_from(diagnostic.rows[1])
        covering = index.on_rows(diagnostic, last)
        for suppression in covering:
            suppression.used.add(diagnostic.code)
        if not covering and not of_file[diagnostic.code]:
            left.append(diagnostic)
    if report_unused:
        unused = [found for entry in suppressions if (found := _unused(source, entry, checked)) is not None]
        if not index.of_file(UNUSED_SUPPRESSION.code):
            # A bare suppression on a line is not meant to hide that another comment there is stale.
            silenced = {entry.row for entry in suppressions if UNUSED_SUPPRESSION.code in entry.codes}
            left += [found for found in unused if found.rows[0] not in silenced]
    return left


def find_suppressions(source: Source) -> Iterator[Suppression]:
    """The suppression comments of a file, in order. Text in strings is none, whatever it says."""
    for lexeme in _LEXEME.finditer(source.code):
        if lexeme["comment"] is None:
            continue
        for match in _DIRECTIVE.finditer(source.code, lexeme.start(), lexeme.end()):
            if match["colon"] and not match["codes"]:
                continue  # a colon, but no code after it: not a suppression, as in ruff
            row, column = source.location(match.start())
            if match["whole"] and source.line(row)[: column - 1].strip():
                continue  # a comment for the whole file is on its own line, as in ruff
            codes = list(_EACH_CODE.finditer(source.code, *match.span("codes"))) if match["codes"] else []
            yield Suppression(
                row=0 if match["whole"] else row,
                start=match.start(),
                end=match.end(),
                codes=tuple(code[0].upper() for code in codes),
                spans=tuple(code.span() for code in codes),
            )


def _names_one_of(text: str, codes: Collection[str]) -> bool:
    folded = text.upper()
    beginnings = {code[:3] for code in codes}  # few, and rare
    return any(part in folded for part in beginnings) and any(code in folded for code in codes)


def _unused(source: Source, suppression: Suppression, checked: Collection[str]) -> Diagnostic | None:
    """The report of the codes in a comment that silenced nothing."""
    stale = [code for code in dict.fromkeys(suppression.codes) if code in checked and code not in suppression.used]
    if not stale:
        return None
    left = [index for index, code in enumerate(suppression.codes) if code not in stale]
    row = source.location(suppression.start)[0]
    names = " and ".join(filter(None, (", ".join(stale[:-1]), stale[-1])))
    return Diagnostic(
        code=UNUSED_SUPPRESSION.code,
        name=UNUSED_SUPPRESSION.name,
        message=f"unused suppression of {names}",
        start=suppression.start,
        end=suppression.end,
        label="suppresses nothing",
        fix=Fix(
            message=f"remove {names}" if left else "remove the comment",
            edits=(_keep(source, suppression, left) if left else _remove(source, suppression),),
            applicability=Applicability.SAFE,
        ),
        rows=(row, row),
    )


def _keep(source: Source, suppression: Suppression, left: list[int]) -> Edit:
    """Leave only some of the codes, each with the separator that stood before it."""
    spans, text = suppression.spans, source.text
    kept = text[slice(*spans[left[0]])]
    for index in left[1:]:
        kept += text[spans[index - 1][1] : spans[index][1]]
    return Edit(spans[0][0], spans[-1][1], kept)


def _remove(source: Source, suppression: Suppression) -> Edit:
    """Remove the directive, and with it the comment, and with it the line, if nothing else is left of them."""
    text, start, end = source.text, suppression.start, suppression.end
    row = source.location(start)[0]
    line_start = source.line_starts[row - 1]
    line_end = line_start + len(source.line(row))
    tail = text[end:line_end]
    words = tail.lstrip(" \t,:;-")
    if words:  # other words follow: they become, or already are, a comment of their own
        return Edit(start, line_end - len(words), "" if words.startswith("#") else "# ")
    before = text[line_start:start]
    if before.strip():
        return Edit(line_start + len(before.rstrip()), line_end, "")
    next_line = source.line_starts[row] if row < len(source.line_starts) else line_end
    return Edit(line_start, next_line, "")
