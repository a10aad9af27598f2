"""Findings as the editor shows them: diagnostics, and a rule's page where the pointer rests."""

from __future__ import annotations

from lsprotocol import types

from torchlint.findings.diagnostic import Diagnostic, Severity
from torchlint.findings.suppressions import find_suppressions
from torchlint.output.pages import page
from torchlint.rule.evidence import benchmark
from torchlint.rule.registry import find_rule
from torchlint.rule.rule import Rule
from torchlint.server.analysis import Checked
from torchlint.server.documents import Snapshot
from torchlint.settings.settings import all_rules

SOURCE = "torchlint"
_SEVERITIES = {
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def as_shown(snapshot: Snapshot, diagnostic: Diagnostic, related: bool = False) -> types.Diagnostic:
    """A finding in the protocol's terms; ``related`` is whether the client shows other places with it."""
    label = f" ({diagnostic.label})" if diagnostic.label and diagnostic.label not in diagnostic.message else ""
    return types.Diagnostic(
        range=snapshot.range(diagnostic.start, diagnostic.end),
        severity=_SEVERITIES[diagnostic.severity],
        code=diagnostic.code,
        source=SOURCE,
        message=diagnostic.message + label,
        related_information=_related(snapshot, diagnostic) or None if related else None,
    )


def _related(snapshot: Snapshot, diagnostic: Diagnostic) -> list[types.DiagnosticRelatedInformation]:
    """The notes of a finding that have a place."""
    found = ((note.place and snapshot.location(note.place), note.message) for note in diagnostic.notes)
    return [types.DiagnosticRelatedInformation(location, message) for location, message in found if location]


def by_document(checked: Checked, related: bool) -> dict[str, list[types.Diagnostic]]:
    """The findings of each document of a snapshot, also of those without any."""
    found: dict[str, list[types.Diagnostic]] = {part.uri: [] for part in checked.snapshot.parts}
    for diagnostic in checked.diagnostics:
        uri = checked.snapshot.part_at(diagnostic.start).uri
        found[uri].append(as_shown(checked.snapshot, diagnostic, related))
    return found


def hover(checked: Checked, uri: str, position: types.Position, markdown: bool) -> types.Hover | None:
    """The pages of the rules whose findings, or whose codes in a suppression comment, are at a position."""
    snapshot = checked.snapshot
    part = snapshot.part_of(uri)
    if part is None or checked.settings is None:
        return None
    offset = part.start + part.text.offset(position)
    spans = {
        diagnostic.code: (diagnostic.start, diagnostic.end)
        for diagnostic in checked.diagnostics
        if diagnostic.start <= offset < max(diagnostic.end, diagnostic.start + 1)
    }
    for comment in find_suppressions(snapshot.source):
        for code, (start, end) in zip(comment.codes, comment.spans, strict=True):
            if start <= offset < end:
                spans = {code: (start, end)}
    rules = [rule for code in spans if (rule := find_rule(all_rules(checked.settings.plugins), code)) is not None]
    if not rules:
        return None
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    text = "\n---\n\n".join(map(_page, rules))
    return types.Hover(types.MarkupContent(kind, text), snapshot.range(*spans[rules[0].code]))


def _page(rule: Rule) -> str:
    """A rule's page, with its benchmark on a GPU below the title."""
    line = benchmark(rule.name)
    title, _, rest = page(rule).partition("\n\n")
    return f"{title}\n\n**Benchmark:** {line}\n\n{rest}" if line else page(rule)
