"""``--add-noqa``: the edits that put ``# noqa`` comments where they suppress findings."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.engine import fixer
from torchlint.findings.codes import INVALID_SYNTAX
from torchlint.findings.diagnostic import Diagnostic
from torchlint.findings.suppressions import CommentRows, Suppression, find_suppressions, suppress
from torchlint.source.parsing import ParseError, is_python, python_tree
from torchlint.source.ranges import Edit
from torchlint.source.source import Source

if TYPE_CHECKING:
    from torchlint.engine.results import Result


def suppress_edits(source: Source, diagnostics: Iterable[Diagnostic], reason: str = "") -> list[Edit]:
    """The edits that suppress ``diagnostics``, in order: one for each row that gets or already has a comment.

    The comment goes to the end of the row in which the finding starts, or where a string or a backslash forbids that,
    to the next row that can take it. A finding of several places gets one at each of them. A file that is not Python
    takes none.
    """
    rows = CommentRows(source)
    wanted: dict[int, set[str]] = {}
    for diagnostic in (place for found in diagnostics for place in (found, *found.others)):
        if diagnostic.code != INVALID_SYNTAX.code:
            first, last = diagnostic.rows
            row = min(max(source.location(diagnostic.start)[0], first), last)
            wanted.setdefault(rows.first_from(row), set()).add(diagnostic.code)
    if not wanted:
        return []
    there = {comment.row: comment for comment in reversed([*find_suppressions(source)]) if comment.codes}
    return [_edit(source, row, codes, there.get(row), reason) for row, codes in sorted(wanted.items())]


def _edit(source: Source, row: int, codes: set[str], there: Suppression | None, reason: str) -> Edit:
    """Add ``codes`` to the comment that is there, or add a comment to the row. Other text in it stays."""
    start = source.line_starts[row - 1]
    line = source.line(row)
    end = start + len(line.rstrip())
    # Behind a `#` of its own no word of a reason can be taken for a code: "A100" looks like one.
    because = f"  # {reason}" if reason else ""
    if there is None:
        return Edit(end, start + len(line), f"  # noqa: {', '.join(sorted(codes))}{because}")
    named = {source.text[slice(*span)].upper(): source.text[slice(*span)] for span in there.spans}
    merged = [named.get(code, code) for code in sorted({*named, *codes})]
    behind = source.text[there.spans[-1][1] : end]
    if not reason or reason in behind:
        return Edit(there.spans[0][0], there.spans[-1][1], ", ".join(merged))
    return Edit(there.spans[0][0], end, ", ".join(merged) + behind + because)


def add_noqa(result: Result, reason: str = "", *, write: bool = True) -> tuple[Result, int]:
    """Suppress the findings of a checked file by comments, and ``write`` it; what is left, and how many comments.

    A file stays as it was if it would not be the same program with the comments.
    """
    before = result.source
    edits = suppress_edits(before, result.diagnostics, reason) if before is not None else []
    if before is None or not edits:
        return result, 0
    after = before.edited(edits)
    if not _same_program(before, after):
        return result, 0
    if write:
        try:
            fixer.write(before, after)
        except fixer.WriteError as error:
            return replace(result, errors=(*result.errors, str(error))), 0
    left = tuple(suppress(after, result.diagnostics, checked=(), report_unused=False))
    diff = fixer.unified_diff(before, after)
    return replace(result, diagnostics=left, source=before if left else None, diff=diff), len(edits)


def _same_program(before: Source, after: Source) -> bool:
    """Whether Python reads both alike. Where it cannot read one, being too old for it, the other parser must."""
    for one, two in zip(before.units, after.units, strict=True):
        if one == two:  # also a cell of a notebook that is not Python
            continue
        try:
            if ast.dump(python_tree(one)) != ast.dump(python_tree(two)):
                return False
        except (ParseError, RecursionError, MemoryError):
            if not is_python(two):
                return False
    return True
