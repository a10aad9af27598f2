"""``--output-format rdjson``: the Reviewdog Diagnostic Format, which reviewdog posts as comments on a review."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic
from torchlint.output.places import Span, absolute, edits_to_offer, findings, message, span, utf8
from torchlint.output.text import remarks
from torchlint.source.ranges import Edit, apply
from torchlint.source.source import Source


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    report = {
        "source": {"name": "torchlint"},
        "severity": "WARNING",
        "diagnostics": [_item(source, diagnostic) for source, diagnostic in findings(results)],
    }
    print(json.dumps(report, indent=2), file=out)


def _item(source: Source, diagnostic: Diagnostic) -> dict[str, Any]:
    location: dict[str, Any] = {"path": absolute(source.path)}
    place = span(source, diagnostic, utf8)
    if place:
        location["range"] = _range(place)
    item: dict[str, Any] = {
        "code": {"value": diagnostic.code},
        "location": location,
        "message": "\n".join([message(source, diagnostic), *(remark for remark, _ in remarks(source, diagnostic))]),
        "severity": diagnostic.severity.value.upper(),
    }
    suggestion = _suggestion(source, edits_to_offer(source, diagnostic))
    if suggestion:
        item["suggestions"] = [suggestion]
    return item


def _suggestion(source: Source, edits: Sequence[Edit]) -> dict[str, Any] | None:
    """One replacement for all edits and the text between them, as users accept suggestions one by one."""
    if not edits:
        return None
    start, end = edits[0].start, max(edit.end for edit in edits)
    moved = [Edit(edit.start - start, edit.end - start, edit.content) for edit in edits]
    place = span(source, Edit(start, end, ""), utf8)
    assert place is not None
    return {"range": _range(place), "text": apply(source.text[start:end], moved)}


def _range(place: Span) -> dict[str, Any]:
    return {
        "start": {"line": place.row, "column": place.column},
        "end": {"line": place.end_row, "column": place.end_column},
    }
