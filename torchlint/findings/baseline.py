"""The baseline: a file of findings that are known and not reported, so that only new ones are.

An entry names no row, so that it survives moved lines: what tells findings of a file apart is their fingerprint.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from torchlint.findings.codes import INVALID_SYNTAX
from torchlint.findings.diagnostic import Diagnostic
from torchlint.findings.fingerprints import fingerprints
from torchlint.source.source import Source

_VERSION = 1
#: Enough of a line for a reviewer to know it again.
_LINE_LENGTH = 100


class BaselineError(Exception):
    """A baseline cannot be read; the text is a one-line reason without the path."""


@dataclass(frozen=True)
class BaselineEntry:
    """One known finding."""

    code: str
    fingerprint: str
    line: str  #: for people: the line on which it was found, or its beginning


@dataclass(frozen=True)
class Baseline:
    """The known findings by file: the path relative to the baseline's folder, with slashes."""

    path: str
    files: Mapping[str, tuple[BaselineEntry, ...]] = field(default_factory=dict)

    def of(self, path: str) -> tuple[BaselineEntry, ...]:
        """The known findings of the file at ``path``."""
        return self.files.get(self.key(path), ())

    def key(self, path: str) -> str:
        """The name that the file at ``path`` has in this baseline."""
        absolute = os.path.abspath(path)
        with contextlib.suppress(ValueError):  # another drive
            absolute = os.path.relpath(absolute, os.path.dirname(self.path))
        return absolute.replace(os.sep, "/")

    def missing_files(self) -> list[str]:
        """The files that no longer exist, by their names in the baseline."""
        folder = os.path.dirname(self.path)
        return [name for name in self.files if not os.path.exists(os.path.join(folder, name))]

    def encode(self) -> bytes:
        """The content of the file: one line per value, everything sorted, so that changes merge."""
        listed = {name: [vars(entry) for entry in _sorted(self.files[name])] for name in self.files}
        return (json.dumps({"version": _VERSION, "findings": listed}, indent=2, sort_keys=True) + "\n").encode()


def load(path: str) -> Baseline:
    """The baseline at ``path``; read again only if the file has changed. Raises BaselineError."""
    try:
        status = os.stat(path)
        return _load(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        raise BaselineError("no such baseline; write it with --update-baseline") from None
    except OSError as error:
        raise BaselineError(f"the baseline cannot be read: {error.strerror or error}") from error


def unknown(
    baseline: Baseline, source: Source, diagnostics: Sequence[Diagnostic], checked: Collection[str]
) -> tuple[list[Diagnostic], int]:
    """Diagnostics of a file that its baseline does not list, and how many listed ones of ``checked`` rules are fixed.

    A syntax error is always reported: what else is in such a file is unknown.
    """
    known = {entry.fingerprint: entry.code for entry in baseline.of(source.path)}
    if not known:
        return list(diagnostics), 0
    left = []
    for diagnostic, fingerprint in zip(diagnostics, fingerprints(source, diagnostics), strict=True):
        if diagnostic.code == INVALID_SYNTAX.code or known.pop(fingerprint, None) is None:
            left.append(diagnostic)
    return left, sum(code in checked for code in known.values())


def entries(source: Source, diagnostics: Sequence[Diagnostic]) -> tuple[BaselineEntry, ...]:
    """What the baseline of a file with these diagnostics lists."""
    return tuple(
        BaselineEntry(
            diagnostic.code, fingerprint, source.line(source.location(diagnostic.start)[0]).strip()[:_LINE_LENGTH]
        )
        for diagnostic, fingerprint in zip(diagnostics, fingerprints(source, diagnostics), strict=True)
        if diagnostic.code != INVALID_SYNTAX.code
    )


class CheckedFile(NamedTuple):
    """What a run found in a file."""

    path: str
    source: Source | None  #: None if nothing was found
    diagnostics: Sequence[Diagnostic]
    unchecked: Collection[str]  #: codes of rules that did not run, or did not complete


def updated(old: Baseline, checked: Iterable[CheckedFile]) -> Baseline:
    """A baseline that lists what is found now.

    Entries of files that were not checked stay, and so do those of rules that were not; files that no longer exist are
    removed.
    """
    files = dict(old.files)
    for name in old.missing_files():
        del files[name]
    for file in checked:
        name = old.key(file.path)
        found = {entry.fingerprint: entry for entry in files.pop(name, ()) if entry.code in file.unchecked}
        if file.source is not None:
            found.update({entry.fingerprint: entry for entry in entries(file.source, file.diagnostics)})
        if found:
            files[name] = tuple(found.values())
    return Baseline(old.path, files)


@lru_cache(maxsize=8)
def _load(path: str, modified: int, size: int) -> Baseline:
    with open(path, "rb") as file:
        data = file.read()
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"not a baseline: not valid JSON: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict) or "version" not in table:
        raise BaselineError("not a baseline: it has no version")
    if table["version"] != _VERSION:
        raise BaselineError(f"version {table['version']!r} of the baseline is not known to this torchlint")
    try:
        files = {name: tuple(map(_entry, listed)) for name, listed in table["findings"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise BaselineError("not a baseline: `findings` must list code, fingerprint and line by file") from error
    return Baseline(path, files)


def _entry(table: Mapping[str, Any]) -> BaselineEntry:
    return BaselineEntry(str(table["code"]), str(table["fingerprint"]), str(table["line"]))


def _sorted(found: Iterable[BaselineEntry]) -> list[BaselineEntry]:
    return sorted(found, key=lambda entry: (entry.code, entry.line, entry.fingerprint))
