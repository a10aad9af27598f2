"""``--output-format sarif``: SARIF 2.1.0, which GitHub code scanning, Azure DevOps and editors read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from torchlint import __version__
from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic, Note, Severity
from torchlint.findings.fingerprints import fingerprints
from torchlint.output import pages
from torchlint.output.places import Span, absolute, edits_to_offer, message, relative, span, utf16
from torchlint.output.text import closing_remarks, noted, offer, where
from torchlint.rule.evidence import evidence_for
from torchlint.rule.rule import Default, Rule
from torchlint.source import reading
from torchlint.source.source import Source

_LEVELS = {Severity.WARNING: "warning", Severity.INFO: "note"}
#: What paths are relative to: the folder in which torchlint ran.
_ROOT = "%SRCROOT%"
# Code that readers would take for a link in a message: `layers[0](x)`.
_LINK = re.compile(r"\[([^][]*)\](?=\()")
# What the text of a link must escape.
_SPECIAL = re.compile(r"[][\\]")


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    names = {diagnostic.code: diagnostic.name for result in results for diagnostic in result.diagnostics}
    indices = {code: index for index, code in enumerate(sorted(names))}
    known = {rule.code: rule for rule in _subclasses(Rule) if hasattr(rule, "code")}
    errors = [error for result in results for error in result.errors]
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "torchlint",
                "version": __version__,
                "rules": [_rule(code, names[code], known.get(code)) for code in indices],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not errors,
                "toolExecutionNotifications": [{"level": "error", "message": {"text": error}} for error in errors],
            }
        ],
        "originalUriBaseIds": {_ROOT: {"uri": Path.cwd().as_uri().rstrip("/") + "/"}},
        # Many readers assume these units, whatever this says.
        "columnKind": "utf16CodeUnits",
        "results": [item for result in results for item in _items(result, indices)],
    }
    report = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    print(json.dumps(report, indent=2), file=out)


def _rule(code: str, name: str, kind: type[Rule] | None) -> dict[str, Any]:
    descriptor: dict[str, Any] = {"id": code, "name": name}
    if kind is None:
        return descriptor
    rule = kind()
    page = rule.page()
    text = pages.page(rule)
    properties: dict[str, Any] = {
        "tags": ["performance", "pytorch"],
        "problem.severity": "warning" if rule.severity() is Severity.WARNING else "recommendation",
    }
    evidence = evidence_for(name)
    if evidence is not None and not evidence.stale:
        properties["speedup"] = {
            "factor": evidence.speedup,
            "interval": [evidence.ci_low, evidence.ci_high],
            "device": evidence.device,
            "torch": evidence.torch,
        }
    return descriptor | {
        "shortDescription": {"text": page.summary or name},
        "fullDescription": {"text": page.sections.get("What it does", page.summary) or name},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {
            "enabled": rule.default is not Default.OPT_IN,
            "level": _LEVELS[rule.severity()],
        },
        "properties": properties,
    }


def _items(result: Result, indices: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    source = result.source
    if source is None:
        return
    artifact = _artifact(result.path)
    for diagnostic, identity in zip(result.diagnostics, fingerprints(source, result.diagnostics), strict=True):
        place = span(source, diagnostic, utf16)
        region = _region(place) if place else {"startLine": 1}
        lines = [_unlinked(message(source, diagnostic))]
        related: list[dict[str, Any]] = []
        for note in diagnostic.notes:
            location = _related(source, note, len(related) + 1)
            if location is None or note.place is None:
                lines.append(_unlinked(noted(source, diagnostic, note)))
                continue
            related.append(location)
            shown = _SPECIAL.sub(r"\\\g<0>", where(source, diagnostic, note.place))
            lines.append(f"note: {_unlinked(note.message)} at [{shown}]({location['id']})")
        lines += (_unlinked(remark) for remark, _ in closing_remarks(diagnostic))
        item: dict[str, Any] = {
            "ruleId": diagnostic.code,
            "ruleIndex": indices[diagnostic.code],
            "level": _LEVELS[diagnostic.severity],
            "message": {"text": "\n".join(lines)},
            "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
            "partialFingerprints": {"torchlint/v1": identity},
        }
        if related:
            item["relatedLocations"] = related
        fix = _fix(source, diagnostic, artifact)
        yield item | {"fixes": [fix]} if fix else item


def _related(source: Source, note: Note, identity: int) -> dict[str, Any] | None:
    """The location of a note; None if it has none, or none in rows of a file. GitHub shows those that texts link."""
    text = reading.containing(source, note.place) if note.place is not None else None
    place = span(text, note.place, utf16) if text is not None and note.place is not None else None
    if text is None or place is None:
        return None
    physical = {"artifactLocation": _artifact(text.path), "region": _region(place)}
    return {"id": identity, "message": {"text": _unlinked(note.message)}, "physicalLocation": physical}


def _unlinked(text: str) -> str:
    """A text in which nothing reads as a link."""
    return _LINK.sub(r"\\[\1\\]", text)


def _fix(source: Source, diagnostic: Diagnostic, artifact: dict[str, str]) -> dict[str, Any] | None:
    edits = edits_to_offer(source, diagnostic)
    if diagnostic.fix is None or not edits:
        return None
    replacements = []
    for edit in edits:
        place = span(source, edit, utf16)
        assert place is not None
        inserted = {"insertedContent": {"text": edit.content}} if edit.content else {}
        replacements.append({"deletedRegion": _region(place)} | inserted)
    return {
        "description": {"text": offer(diagnostic.fix)},
        "artifactChanges": [{"artifactLocation": artifact, "replacements": replacements}],
    }


def _region(place: Span) -> dict[str, int]:
    return {
        "startLine": place.row,
        "startColumn": place.column,
        "endLine": place.end_row,
        "endColumn": place.end_column,
    }


def _artifact(path: str) -> dict[str, str]:
    if path == "-":
        return {"uri": "-"}
    below = relative(absolute(path), os.getcwd())
    if below is None:
        return {"uri": Path(absolute(path)).as_uri()}
    return {"uri": quote(os.fsencode(below)), "uriBaseId": _ROOT}


def _subclasses(kind: type[Rule]) -> Iterator[type[Rule]]:
    """All rules there are in this process: those of the packs that the settings name."""
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
