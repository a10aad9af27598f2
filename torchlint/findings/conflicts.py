"""Which fixes can be applied at once, and in which order their edits are made."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise

from torchlint.findings.diagnostic import Applicability, Diagnostic
from torchlint.source.ranges import Edit


def applicable(diagnostic: Diagnostic, unsafe: bool) -> bool:
    """Whether the diagnostic has a fix that may be applied."""
    if diagnostic.fix is None:
        return False
    return diagnostic.fix.applicability is Applicability.SAFE or (
        unsafe and diagnostic.fix.applicability is Applicability.UNSAFE
    )


def without_conflicts(diagnostics: Iterable[Diagnostic], length: int) -> list[Diagnostic]:
    """A maximal choice of diagnostics whose fixes can be applied at once, the first in the text first.

    Fixes may share an edit, such as the import that both need. Others that touch the same place wait for an iteration
    in which the rules have seen what the first one did.
    """
    chosen: list[Diagnostic] = []
    taken: list[Edit] = []  # sorted, and apart from each other
    for diagnostic in sorted(diagnostics, key=_order):
        if diagnostic.fix is None or not is_well_formed(diagnostic, length):
            continue
        new = [edit for edit in dict.fromkeys(diagnostic.fix.edits) if not _has(taken, edit)]
        if not any(_conflicts(taken, edit) for edit in new):
            chosen.append(diagnostic)
            for edit in new:
                insort(taken, edit, key=_place)
    return chosen


def edits_of(diagnostics: Iterable[Diagnostic]) -> list[Edit]:
    """The edits of fixes that do not conflict, in order, shared ones once."""
    edits = dict.fromkeys(edit for diagnostic in diagnostics if diagnostic.fix for edit in diagnostic.fix.edits)
    return sorted(edits, key=_place)


def is_well_formed(diagnostic: Diagnostic, length: int) -> bool:
    """Whether the fix changes something, within the text, and no character twice."""
    edits = sorted(dict.fromkeys(diagnostic.fix.edits), key=_place) if diagnostic.fix else []
    inside = all(0 <= edit.start <= edit.end <= length for edit in edits)
    return bool(edits) and inside and all(one.end <= two.start for one, two in pairwise(edits))


def _order(diagnostic: Diagnostic) -> tuple[int, str]:
    edits = diagnostic.fix.edits if diagnostic.fix else ()
    return min((edit.start for edit in edits), default=diagnostic.start), diagnostic.code


def _place(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _has(taken: list[Edit], edit: Edit) -> bool:
    index = bisect_left(taken, _place(edit), key=_place)
    while index < len(taken) and _place(taken[index]) == _place(edit):
        if taken[index] == edit:
            return True
        index += 1
    return False


def _conflicts(taken: list[Edit], edit: Edit) -> bool:
    """Whether ``edit`` overlaps a taken edit, or touches one where an order would have to be guessed."""
    index = bisect_left(taken, edit.start, key=lambda other: other.start)
    for position in range(max(index - 1, 0), len(taken)):
        other = taken[position]
        if other.start > edit.end:
            return False
        touching = other.end == edit.start or edit.end == other.start
        insertion = other.start == other.end or edit.start == edit.end
        if touching and (insertion or other.start == edit.start):
            return True
        if other.start < edit.end and edit.start < other.end:
            return True
    return False
