"""What the editor offers to do about findings: fix one, suppress one, fix all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lsprotocol import types

from torchlint.engine.add_noqa import suppress_edits
from torchlint.engine.fixer import Fixed
from torchlint.findings.conflicts import applicable, edits_of, without_conflicts
from torchlint.findings.diagnostic import Applicability, Diagnostic
from torchlint.server.analysis import Checked
from torchlint.server.documents import Part, Snapshot
from torchlint.server.findings import as_shown
from torchlint.source.lexemes import lines
from torchlint.source.parsing import compiles
from torchlint.source.ranges import Edit
from torchlint.source.source import Source

FIX_ALL = "source.fixAll.torchlint"
FIX_ALL_NOTEBOOK = "notebook.source.fixAll.torchlint"
KINDS = (types.CodeActionKind.QuickFix.value, FIX_ALL, FIX_ALL_NOTEBOOK)
#: The command that applies all safe fixes, for clients that cannot ask for a code action's edit later.
FIX_ALL_COMMAND = "torchlint.applyFixAll"
FIX_ALL_TITLE = "torchlint: fix all safely fixable findings"


def wanted(kind: str, context: types.CodeActionContext) -> bool:
    """Whether the client asks for actions of a kind: for the kind itself, one above it, or for anything."""
    return context.only is None or any(kind == only or kind.startswith(only + ".") for only in map(_text, context.only))


def quick_fixes(checked: Checked, params: types.CodeActionParams, versioned: bool) -> Iterator[types.CodeAction]:
    """For each finding in the range: its fix, if it has one that may be applied, and a comment that suppresses it."""
    snapshot = checked.snapshot
    part = snapshot.part_of(params.text_document.uri)
    if part is None:
        return
    start = part.start + part.text.offset(params.range.start)
    end = part.start + part.text.offset(params.range.end)
    here = [
        diagnostic
        for diagnostic in checked.diagnostics
        if diagnostic.start <= end and start <= diagnostic.end and snapshot.part_at(diagnostic.start) is part
    ]
    for diagnostic in here:
        if applicable(diagnostic, unsafe=True) and _keeps_python(snapshot.source, diagnostic):
            assert diagnostic.fix is not None
            safe = diagnostic.fix.applicability is Applicability.SAFE
            why = "" if safe else f" (unsafe: {diagnostic.fix.caution})" if diagnostic.fix.caution else " (unsafe)"
            title = f"torchlint ({diagnostic.code}): {diagnostic.fix.message}{why}"
            yield _quick_fix(snapshot, diagnostic, params, title, edits_of([diagnostic]), safe, versioned)
    for diagnostic in here:
        edits = suppress_edits(snapshot.source, [diagnostic])
        if edits:
            where = "this line" if len(edits) == 1 else f"these {len(edits)} lines"
            title = f"torchlint ({diagnostic.code}): suppress on {where}"
            yield _quick_fix(snapshot, diagnostic, params, title, edits, False, versioned)


def can_fix(checked: Checked) -> bool:
    """Whether there is anything that ``torchlint --fix`` would apply."""
    unsafe = checked.settings is not None and checked.settings.unsafe_fixes
    return any(applicable(diagnostic, unsafe) for diagnostic in checked.diagnostics)


def fix_all(checked: Checked, fixed: Fixed, versioned: bool) -> types.WorkspaceEdit:
    """The edit that makes of a snapshot what all fixes made of it, and leaves lines that did not change alone."""
    snapshot, after = checked.snapshot, fixed.source
    edits: dict[Part, list[types.TextEdit]] = {}
    ends = [(cell.start, cell.end) for cell in after.cells] or [(0, len(after.text))]
    for part, (start, end) in zip(snapshot.parts, ends, strict=True):
        hunks = _line_edits(snapshot.source.text[part.start : part.end], after.text[start:end])
        if hunks:
            edits[part] = [types.TextEdit(part.text.range(edit.start, edit.end), edit.content) for edit in hunks]
    return workspace_edit(edits, versioned)


def workspace_edit(edits: Mapping[Part, Sequence[types.TextEdit]], versioned: bool) -> types.WorkspaceEdit:
    """Edits of documents, bound to their versions if the client can tell them apart."""
    if not versioned:
        return types.WorkspaceEdit(changes={part.uri: list(changes) for part, changes in edits.items()})
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri=part.uri, version=part.version), list(changes)
            )
            for part, changes in edits.items()
        ]
    )


def _keeps_python(source: Source, diagnostic: Diagnostic) -> bool:
    """Whether a fix can be applied, and its result is Python: what ``torchlint --fix`` asks of it too."""
    chosen = without_conflicts([diagnostic], len(source.text))
    edited = source.edited(edits_of(chosen))
    units = zip(source.units, edited.units, strict=True)
    return bool(chosen) and all(before == after or compiles(after) or not compiles(before) for before, after in units)


def _quick_fix(
    snapshot: Snapshot,
    diagnostic: Diagnostic,
    params: types.CodeActionParams,
    title: str,
    edits: Iterable[Edit],
    preferred: bool,
    versioned: bool,
) -> types.CodeAction:
    shown = as_shown(snapshot, diagnostic)
    # The client's own object, where it has one, so that it can tell which of its diagnostics the action solves.
    known = [item for item in params.context.diagnostics if item.code == shown.code and item.range == shown.range]
    return types.CodeAction(
        title=title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=known[:1] or [shown],
        is_preferred=preferred or None,
        edit=workspace_edit(snapshot.text_edits(edits), versioned),
    )


def _line_edits(before: str, after: str) -> list[Edit]:
    """Edits of whole lines that turn one text into another."""
    old, new = lines(before), lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Edit(starts[first], starts[last], "".join(new[start:end]))
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def _text(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind
