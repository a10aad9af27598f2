"""``--output-format json``: a list in ruff's shape, with name, severity, notes, evidence and profile in addition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic, Fix, Note, Share
from torchlint.output.places import absolute
from torchlint.output.text import statistics
from torchlint.rule.evidence import evidence_for
from torchlint.source import reading
from torchlint.source.source import Source


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    items = [
        item(result.source, diagnostic) for result in results if result.source for diagnostic in result.diagnostics
    ]
    print(json.dumps(items, indent=2), file=out)


def write_statistics(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write how often each rule was violated."""
    print(json.dumps(statistics_items(results, unsafe), indent=2), file=out)


def statistics_items(results: Sequence[Result], unsafe: bool) -> list[dict[str, Any]]:
    """How often each rule was violated, in ruff's shape."""
    return [
        {"code": code, "name": name, "count": count, "fixable": fixable == count, "fixable_count": fixable}
        for count, code, name, fixable in statistics(results, unsafe)
    ]


def item(source: Source, diagnostic: Diagnostic) -> dict[str, Any]:
    """One finding."""
    evidence = evidence_for(diagnostic.name)
    profile = {} if diagnostic.share is None else {"profile": _share(diagnostic.share)}
    return {
        "cell": source.position(diagnostic.start).cell,
        "code": diagnostic.code,
        "end_location": _location(source, diagnostic.end),
        "evidence": None
        if evidence is None or evidence.stale
        else {
            "speedup": evidence.speedup,
            "ci_low": evidence.ci_low,
            "ci_high": evidence.ci_high,
            "device": evidence.device,
            "torch": evidence.torch,
        },
        "filename": absolute(source.path),
        "fix": diagnostic.fix and _fix(source, diagnostic.fix),
        "location": _location(source, diagnostic.start),
        "message": diagnostic.message,
        "name": diagnostic.name,
        "notes": [_note(source, note) for note in diagnostic.notes],
        "noqa_row": source.position(source.offset(diagnostic.rows[1], 1)).row,
        **profile,
        "severity": diagnostic.severity.value,
        "url": None,
    }


def _share(share: Share) -> dict[str, Any] | None:
    """What a finding takes of a profile; None if its code does not run in it."""
    if not share.where:
        return None
    return {
        "kernels_per_step": round(share.kernels, 2),
        "parts": {label: round(time, 3) for label, time in share.parts},
        "share": round(share.fraction, 4),
        "us_per_step": round(share.microseconds, 3),
        "where": share.where,
    }


def _note(source: Source, note: Note) -> dict[str, Any]:
    place = note.place
    text = reading.containing(source, place) if place is not None else None
    return {
        "cell": text.position(place.start).cell if text and place else None,
        "filename": absolute(place.path or source.path) if place else None,
        "location": _location(text, place.start) if text and place else None,
        "message": note.message,
    }


def _fix(source: Source, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "edits": [
            {
                "cell": source.position(edit.start).cell,
                "content": edit.content,
                "end_location": _location(source, edit.end),
                "location": _location(source, edit.start),
            }
            for edit in sorted(fix.edits, key=lambda edit: (edit.start, edit.end))
        ],
        "message": fix.message,
    }


def _location(source: Source, offset: int) -> dict[str, int]:
    _, row, column = source.position(offset)
    return {"column": column, "row": row}
