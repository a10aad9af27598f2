"""Diagnostics -> new text: which fixes are applied together, until nothing is left to fix; and the file is written."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from torchlint.engine.checker import InternalError, check, raise_crash
from torchlint.findings.conflicts import applicable, edits_of, is_well_formed, without_conflicts
from torchlint.findings.diagnostic import Diagnostic
from torchlint.settings.settings import Settings
from torchlint.source.lexemes import lines
from torchlint.source.parsing import compiles, is_python
from torchlint.source.replacing import replace_file
from torchlint.source.source import Source, SourceError

#: Real files need two or three iterations.
MAX_ITERATIONS = 100


class WriteError(Exception):
    """A fixed file cannot be written; the text is a one-line reason."""


@dataclass(frozen=True)
class Fixed:
    """What fixing made of a source."""

    source: Source
    diagnostics: list[Diagnostic]  #: what is left
    applied: tuple[Diagnostic, ...] = ()
    errors: tuple[str, ...] = ()


def fix(
    source: Source,
    settings: Settings,
    *,
    syntax: bool = False,
    on_crash: Callable[[InternalError], None] = raise_crash,
) -> Fixed:
    """Apply fixes until none is left. The result is checked by the same ``check`` as any file.

    A fix whose result is not Python is left out and reported; a file that does not settle stays as it was.
    """

    def look(at: Source) -> list[Diagnostic]:
        return check(at, settings, syntax=syntax, on_crash=on_crash)

    found = first = look(source)
    current = source
    applied: list[Diagnostic] = []
    refused: set[object] = set()
    errors: list[str] = []
    seen = {source.text: 0}  # how many fixes had been applied to get there
    while True:
        wanted = [
            diagnostic
            for diagnostic in found
            if applicable(diagnostic, settings.unsafe_fixes) and _identity(current, diagnostic) not in refused
        ]
        if not wanted:
            return Fixed(current, found, tuple(applied), tuple(errors))
        chosen = without_conflicts(wanted, len(current.text))
        sound, unsound = _sound(current, chosen)
        for culprit in unsound:
            refused.add(_identity(current, culprit))
            cell, row, _ = current.position(culprit.start)
            place = f"line {row}" if cell is None else f"line {row} of cell {cell}"
            errors.append(
                f"{source.path}: the fix of {culprit.code} on {place} was not applied: its result is not valid Python"
            )
        for diagnostic in wanted:  # edits that overlap; reported once, and never tried again
            if not is_well_formed(diagnostic, len(current.text)):
                refused.add(_identity(current, diagnostic))
                errors.append(f"{source.path}: the fix of {diagnostic.code} was not applied: its edits overlap")
        if not sound:
            continue
        current = current.edited(edits_of(sound))
        text = current.text
        applied += sound
        if text in seen or len(seen) > MAX_ITERATIONS:
            turning = applied[seen.get(text, len(applied) - len(sound)) :]
            codes = ", ".join(sorted({diagnostic.code for diagnostic in turning}))
            return Fixed(source, first, (), (f"{source.path}: the fixes of {codes} do not settle; nothing was fixed",))
        seen[text] = len(applied)
        found = look(current)


def unified_diff(before: Source, after: Source) -> str:
    """The change as a unified diff, in a notebook one for each changed cell; empty if there is none."""
    if not before.cells:
        return _diff(before.path, before.text, after.text)
    return "".join(
        _diff(f"{before.path}:cell {old.index}", before.text[old.start : old.end], after.text[new.start : new.end])
        for old, new in zip(before.cells, after.cells, strict=True)
    )


def _diff(name: str, before: str, after: str) -> str:
    changes = difflib.unified_diff(lines(before), lines(after), name, name)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in changes)


def content_of(before: Source, after: Source) -> bytes:
    """The content of a fixed file. Raises SourceError if it cannot be written in the encoding of the file."""
    content = after.to_bytes()
    if Source.decoded(content, before.path).encoding != before.encoding:  # a row less, and another comment names it
        raise SourceError("Python would read the result in another encoding")
    return content


def write(before: Source, after: Source) -> None:
    """Replace the file by the fixed text, wholly or not at all. Raises WriteError."""
    path = os.path.realpath(before.path)
    try:
        original = before.to_bytes()
        content = content_of(before, after)
        with _writable(path, before.path) as file:
            if file.read() != original:
                raise WriteError(f"{before.path}: not fixed: the file has changed since it was read")
            status = os.fstat(file.fileno())
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        owner = (status.st_uid, status.st_gid) if root else None
        replace_file(path, content, stat.S_IMODE(status.st_mode), owner)
    except SourceError as error:
        raise WriteError(f"{before.path}: not fixed: {error}") from error
    except OSError as error:
        raise WriteError(f"{before.path}: not fixed: {error.strerror or error}") from error


def _writable(path: str, name: str) -> BinaryIO:
    """The file, open for reading. Raises WriteError if it is read-only, OSError if it is gone."""
    try:
        return open(path, "r+b")  # asking for its permissions alone cannot tell a read-only file from one that is gone
    except PermissionError as error:
        raise WriteError(f"{name}: not fixed: the file is read-only") from error


def _sound(source: Source, chosen: list[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Those of ``chosen`` that together leave the text Python, as many as can be; and those that do not even alone.

    The others wait for an iteration in which the rules have seen what the first ones did.
    """
    # An older interpreter than the project's may not know its grammar.
    units = [(unit, compiles(unit)) for unit in source.units]

    def valid(diagnostics: list[Diagnostic]) -> bool:
        edited = source.edited(edits_of(diagnostics)).units
        return all(
            before == after or (compiles(after) if python else is_python(after) or not is_python(before))
            for (before, python), after in zip(units, edited, strict=True)
        )

    if valid(chosen):
        return chosen, []
    sound: list[Diagnostic] = []
    unsound: list[Diagnostic] = []
    for diagnostic in chosen:
        if valid([*sound, diagnostic]):
            sound.append(diagnostic)
        elif not valid([diagnostic]):
            unsound.append(diagnostic)
    return sound, unsound


def _identity(source: Source, diagnostic: Diagnostic) -> object:
    """What identifies a fix from one iteration to the next, while offsets move."""
    contents = tuple(edit.content for edit in diagnostic.fix.edits) if diagnostic.fix else ()
    return diagnostic.code, source.text[diagnostic.start : diagnostic.end], contents
