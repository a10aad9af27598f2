"""Results of earlier runs that still hold: nothing that they depend on has changed.

They are kept as JSON, one file for the files of a project under one set of settings. Anything in it may be wrong, for
anyone can write it: then it is as if nothing was kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torchlint.cache.coding import CodingError, decode, encode
from torchlint.cache.folder import CacheFolder, digest
from torchlint.engine.results import Mode, Result, digest_of
from torchlint.findings.conflicts import applicable
from torchlint.findings.diagnostic import Diagnostic
from torchlint.project.roots import find_root
from torchlint.project.state import (
    Changes,
    Dependencies,
    FileState,
    ProjectState,
    Reading,
    Snapshot,
    Stamp,
    is_same,
    stamp_of,
)
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.source import Source, SourceError


@dataclass(frozen=True)
class _Kept:
    """What is kept of one file."""

    stamp: Stamp
    digest: str
    around: int  #: index of the files that may change its context; -1: only the file itself counts
    context: str  #: digest of the context
    takers: frozenset[str]  #: files that may take a name from it
    diagnostics: tuple[Diagnostic, ...]
    resolved: int


@dataclass(frozen=True)
class _Content:
    """What a file of the cache contains."""

    results: Mapping[str, _Kept]  #: by path as it was given, followed by `_NAMED` if it was named
    around: tuple[frozenset[str], ...] = ()
    project: Snapshot | None = None  #: None while all results depend on their own files alone


#: A named file is always checked for valid syntax, one that is found in a folder only if it imports torch or concerns a
#: rule.
_NAMED = "\0"


class KeptResults:
    """What is kept of some files, and what is to be kept of them."""

    def __init__(self, files: Sequence[File], cache: CacheFolder) -> None:
        self._files = files
        self._cache = cache
        self._start = time.time_ns()
        self._roots: dict[str, tuple[str, bool]] = {}
        self._sections: dict[tuple[str, bool, int], _Section | None] = {}

    def results(self, mode: Mode) -> dict[int, Result]:
        """The results that still hold, by the indices of the files; without those that have something to fix."""
        found = {}
        for index, file in enumerate(self._files):
            section = self._section(file)
            result = section.result(file) if section is not None else None
            if result is not None and (mode is Mode.CHECK or not _has_applicable_fix(result, file.settings)):
                found[index] = result
        return found

    def keep(self, results: Mapping[int, Result]) -> None:
        """Keep results, by the indices of the files, next to those that are still valid."""
        found: dict[int, list[tuple[File, Result]]] = {}
        for index, result in results.items():
            section = self._section(self._files[index])
            if section is not None and result.basis is not None:
                found.setdefault(id(section), []).append((self._files[index], result))
        for section in self._sections.values():
            if section is not None:
                section.keep(found.get(id(section), ()), self._start)

    def _section(self, file: File) -> _Section | None:
        folder = os.path.dirname(os.path.abspath(file.path))
        if folder not in self._roots:
            self._roots[folder] = find_root(folder)
        key = (*self._roots[folder], id(file.settings))
        if key not in self._sections:
            plain = not file.settings.plugins  # what the rules of a plugin depend on is unknown
            self._sections[key] = _Section(*self._roots[folder], file.settings, self._cache) if plain else None
        return self._sections[key]


class _Section:
    """The files of one project under one set of settings."""

    def __init__(self, root: str, deep: bool, settings: Settings, cache: CacheFolder) -> None:
        self._root = root
        self._settings = settings
        self._cache = cache
        self._state = ProjectState(root, deep)
        self._contexts: dict[str, str] = {}  # of files whose context may be another one
        self._dated: set[str] = set()  # results of files whose content is the same, though their times differ
        self._reading = Reading(self._digest, self._shape, self._concerned)
        self._name = digest(repr((root, deep, os.getcwd(), _what_matters(settings), _content_of(settings.baseline))))

    @cached_property
    def _content(self) -> _Content:
        try:
            return decode(_Content, self._cache.read(self._name))
        except CodingError:
            return _Content({})

    @cached_property
    def _changes(self) -> Changes:
        old = self._content.project
        return Changes(graph=True) if old is None else self._state.changes(old, self._reading)

    def result(self, file: File) -> Result | None:
        """The result of a file, if it is still valid."""
        key, kept = self._find(file)
        if kept is None:
            return None
        source: Source | None = None
        if kept.diagnostics or not is_same(kept.stamp, stamp_of(file.path)):
            source = _read(file.path)
            if source is None or digest_of(source) != kept.digest:
                return None
            if not is_same(kept.stamp, stamp_of(file.path)):
                self._dated.add(key)
        if not self._holds(kept, file.path) or not all(_is_sound(one, source) for one in kept.diagnostics):
            return None
        return Result(file.path, kept.diagnostics, source if kept.diagnostics else None, resolved=kept.resolved)

    def _find(self, file: File) -> tuple[str, _Kept | None]:
        """What is kept of a file. That it was named makes no difference where a rule had it parsed."""
        kept = self._content.results.get(file.path)
        if kept is not None and (kept.around >= 0 or not file.named):
            return file.path, kept
        return _key(file), self._content.results.get(_key(file))

    def _holds(self, kept: _Kept, path: str) -> bool:
        """Whether what counts of the other files is as it was."""
        if kept.around < 0:
            return True
        around = self._content.around
        if kept.around >= len(around) or self._changes.graph or not kept.takers.isdisjoint(self._changes.files):
            return False
        if around[kept.around].isdisjoint(self._changes.files):
            return True
        return bool(kept.context) and self._context_of(path) == kept.context

    def _context_of(self, path: str) -> str:
        """The digest of what a file is analysed with now."""
        from torchlint.engine.checker import InternalError, context_digest  # only for files that have changed

        if path not in self._contexts:
            source = _read(path)
            try:
                self._contexts[path] = context_digest(source, self._settings) if source is not None else ""
            except (InternalError, RecursionError):
                self._contexts[path] = ""
        return self._contexts[path]

    def keep(self, found: Sequence[tuple[File, Result]], start: int) -> None:
        """Keep results of a run that began at ``start``; nothing is written if nothing is new."""
        if not found and not self._dated:
            return
        new: dict[str, _Kept] = {}
        known: dict[str, FileState] = {}
        keys: set[str] = set()
        around: dict[frozenset[str], int] = {}
        old = self._content
        replaced = {name for file, _ in found for name in (file.path, _key(file))}
        for key, kept in old.results.items():
            if key not in replaced and self._holds(kept, key.removesuffix(_NAMED)):
                index = around.setdefault(old.around[kept.around], len(around)) if kept.around >= 0 else -1
                stamp = stamp_of(key.removesuffix(_NAMED), start) if key in self._dated else kept.stamp
                new[key] = replace(kept, around=index, stamp=stamp)
        if old.project is not None and not self._changes.graph:
            known |= {file: state for file, state in old.project.files.items() if file not in self._changes.files}
            keys |= old.project.config_keys
        for file, result in found:
            basis = result.basis
            if basis is None or stamp_of(file.path)[1] >= start:
                continue
            others = basis.dependencies or Dependencies(frozenset(), frozenset(), "", frozenset())
            index = -1 if basis.dependencies is None else around.setdefault(others.files, len(around))
            bare = tuple(_bare(one) for one in result.diagnostics)
            key = _key(file) if basis.dependencies is None else file.path
            stamp = stamp_of(file.path, start)
            new[key] = _Kept(stamp, basis.digest, index, others.context, others.takers, bare, result.resolved)
            place = os.path.relpath(os.path.abspath(file.path), self._root).replace(os.sep, "/")
            known[place] = FileState((0, 0), basis.digest, basis.shape, basis.concerned)
            keys |= others.config_keys
        project = self._state.snapshot(known, frozenset(keys), start, self._reading) if around else None
        self._cache.write(self._name, encode(_Content(new, tuple(around), project)))

    # -- how the files of the project are read

    def _digest(self, place: str) -> str:
        source = _read(self._state.place(place))
        return digest_of(source) if source is not None else ""

    def _shape(self, place: str) -> str:
        from torchlint.project.store import Entry  # only for files that have changed

        return Entry(self._state.place(place), self._root).shape

    def _concerned(self, place: str) -> bool:
        from torchlint.engine.screens import is_concerned  # only for files that have changed

        source = _read(self._state.place(place))
        return source is not None and is_concerned(place, source.code, self._settings)


def _has_applicable_fix(result: Result, settings: Settings) -> bool:
    return any(applicable(one, settings.unsafe_fixes) for one in result.diagnostics)


def _key(file: File) -> str:
    return file.path + _NAMED if file.named else file.path


def _what_matters(settings: Settings) -> object:
    """Those of the settings on which results depend."""
    plain = replace(settings, exclude=(), output_format="", fix=False, unsafe_fixes=False, show_fixes=False, device="")
    return encode(plain)


def _content_of(path: str) -> str:
    """The content of a file that need not be there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _read(path: str) -> Source | None:
    try:
        return reading.read(path)
    except (OSError, SourceError):
        return None


def _bare(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic without the cause, which has served when places of one cause are joined."""
    return replace(diagnostic, cause=None, others=tuple(_bare(one) for one in diagnostic.others))


def _is_sound(diagnostic: Diagnostic, source: Source | None) -> bool:
    """Whether the places of a diagnostic are within the texts that they are in."""
    if source is None:
        return False
    length = len(source.text)
    ranges = [(diagnostic.start, diagnostic.end)]
    if diagnostic.fix is not None:
        ranges += [(edit.start, edit.end) for edit in diagnostic.fix.edits]
    if not all(0 <= start <= end <= length for start, end in ranges):
        return False
    for note in diagnostic.notes:
        text = reading.containing(source, note.place) if note.place is not None else source
        if text is None or (note.place is not None and not 0 <= note.place.start <= note.place.end <= len(text.text)):
            return False
    return all(_is_sound(one, source) for one in diagnostic.others)
