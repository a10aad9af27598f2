"""Findings with the same cause: reported as one, with one fix, at the first of their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from torchlint.findings.conflicts import edits_of, without_conflicts
from torchlint.findings.diagnostic import Applicability, Cause, Diagnostic, Fix, Note
from torchlint.source.ranges import Place
from torchlint.source.source import Source

#: How many other places of a cause have a note each.
_SHOWN = 8


def joined(source: Source, diagnostics: Sequence[Diagnostic], found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """``diagnostics`` with one finding for each cause; ``found`` has those that are suppressed as well."""
    groups: dict[Hashable, list[Diagnostic]] = {}
    for number, diagnostic in enumerate(diagnostics):
        groups.setdefault(_key(diagnostic) or number, []).append(diagnostic)
    before = Counter(_key(diagnostic) for diagnostic in found)
    return [_joined(source, places, before[_key(places[0])]) for places in groups.values()]


def _key(diagnostic: Diagnostic) -> tuple[str, Hashable] | None:
    return None if diagnostic.cause is None else (diagnostic.code, diagnostic.cause.key)


def _joined(source: Source, places: Sequence[Diagnostic], count: int) -> Diagnostic:
    first, others = places[0], tuple(replace(place, cause=None) for place in places[1:])
    cause = first.cause
    if cause is None:
        return first
    notes = dict.fromkeys(note for place in places for note in place.notes)
    notes |= dict.fromkeys(_elsewhere(cause, others))
    is_complete = len(places) == count or not cause.whole
    fix = _fix(source, places, cause) if is_complete else None
    return replace(first, notes=tuple(notes), fix=fix, cause=None, others=others)


def _elsewhere(cause: Cause, others: Sequence[Diagnostic]) -> list[Note]:
    """A note at each of the other places, in the order of the text; where there are many, at the first ones."""
    places = sorted({Place(place.start, place.end) for place in others}, key=lambda place: (place.start, place.end))
    notes = [Note(cause.others, place) for place in places[:_SHOWN]]
    return [*notes, Note(f"and {len(places) - _SHOWN} more")] if len(places) > _SHOWN else notes


def _fix(source: Source, places: Sequence[Diagnostic], cause: Cause) -> Fix | None:
    """The fixes of all places that can be made at once, as one."""
    # Where each place has the edits of all, they are the same object.
    distinct = {id(place.fix and place.fix.edits): place for place in reversed(places)}
    chosen = without_conflicts(list(reversed(distinct.values())), len(source.text))
    fixes = [place.fix for place in chosen if place.fix is not None]
    if len(fixes) < 2:
        return fixes[0] if fixes else None
    doubtful = next((fix for fix in fixes if fix.applicability is not Applicability.SAFE), None)
    return Fix(
        cause.fix or fixes[0].message,
        tuple(edits_of(chosen)),
        fixes[0].applicability if doubtful is None else doubtful.applicability,
        "" if doubtful is None else doubtful.caution,
    )
