"""Diagnostics with the offsets and rows of their own file, and with fixes that it can take."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.findings.diagnostic import Diagnostic, Fix
from torchlint.source.lexemes import comments_in
from torchlint.source.source import Source

if TYPE_CHECKING:
    from torchlint.model.module import Module


def within(diagnostic: Diagnostic, module: Module, fixes: dict[int, Fix | None]) -> Diagnostic:
    """The diagnostic with offsets and rows of its own file, and without a fix that would edit another one.

    ``fixes`` contains, by identity, those that were moved before.
    """
    base, first = module.begin, module.row_at(module.begin) - 1
    fix = diagnostic.fix
    if fix is not None:
        if id(fix) not in fixes:
            fixes[id(fix)] = _moved(fix, module)
        fix = fixes[id(fix)]
    rows = diagnostic.rows
    return replace(
        diagnostic,
        start=diagnostic.start - base,
        end=diagnostic.end - base,
        fix=fix,
        rows=(rows[0] - first, rows[1] - first) if rows[0] else rows,
    )


def _moved(fix: Fix, module: Module) -> Fix | None:
    """The fix with offsets of its own file; None if it would edit another one, or drop a comment."""
    base = module.begin
    if not all(base <= edit.start and edit.end <= module.end for edit in fix.edits):
        return None
    comments = Counter(comment for edit in fix.edits for comment in comments_in(module.text[edit.start : edit.end]))
    if comments - Counter(comment for edit in fix.edits for comment in comments_in(edit.content)):
        return None
    if base == 0:
        return fix
    return replace(fix, edits=tuple(replace(edit, start=edit.start - base, end=edit.end - base) for edit in fix.edits))


def fitted(source: Source, diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with its fix as the file can take it, without one that the file cannot take."""
    fix = diagnostic.fix
    edits = source.fitted(fix.edits) if fix is not None else None
    if fix is None or edits is fix.edits:
        return diagnostic
    return replace(diagnostic, fix=replace(fix, edits=tuple(edits)) if edits else None)


def rows_of(source: Source, diagnostic: Diagnostic) -> tuple[int, int]:
    """First and last row of what a diagnostic marks."""
    return source.location(diagnostic.start)[0], source.location(max(diagnostic.start, diagnostic.end - 1))[0]
