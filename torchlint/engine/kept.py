"""Results of earlier runs that are still valid: nothing that they depend on has changed.

They are kept as JSON, one file for the files of a project under one set of settings. Anything in it may be wrong, for
anyone can write it: then it is as if nothing was kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    RecordedProject,
    Stamp,
    is_same,
    stamp_of,
)
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.paths import repository_of
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

    results: Mapping[str, _Kept]  #: by path relative to the root, followed by `_NAMED` if it was named
    around: tuple[frozenset[str], ...] = ()
    project: RecordedProject | None = None  #: None while all results depend on their own files alone


#: A named file is always checked for valid syntax, one that is found in a folder only if it imports torch or concerns a
#: rule.
_NAMED = "\0"


class KeptResults:
    """What is kept of files, and what is to be kept of them. It describes one moment: use it for one run."""

    def __init__(self, cache: CacheFolder, *, start: int | None = None, lasting: bool = False) -> None:
        """``start``, in nanoseconds, is when the run began; by default now.

        A ``lasting`` process must answer soon: a result is dropped that may depend on a changed file, although its
        context may be the same.
        """
        self._cache = cache
        self._lasting = lasting
        self._start = time.time_ns() if start is None else start
        self._roots: dict[str, tuple[str, bool]] = {}
        self._sections: dict[tuple[str, bool, int], _Section | None] = {}

    def result(self, file: File, mode: Mode, source: Source | None = None) -> Result | None:
        """The result of a file if it is still valid, unless it has something to fix and ``mode`` asks for that.

        ``source`` is what the file contains for the caller; without it, what is on disk counts.
        """
        section = self._section(file)
        result = section.result(file, source) if section is not None else None
        if result is not None and mode is not Mode.CHECK and _has_applicable_fix(result, file.settings):
            return None
        return result

    def look(self, file: File) -> None:
        """Find out which files there are in the project of a file, as of now."""
        section = self._section(file)
        if section is not None:
            section.look()

    def keep(self, results: Iterable[tuple[File, Result]]) -> None:
        """Keep results of what is on disk, next to those that are still valid."""
        found: dict[int, list[tuple[File, Result]]] = {}
        for file, result in results:
            section = self._section(file)
            if section is not None and result.basis is not None:
                found.setdefault(id(section), []).append((file, result))
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
            section = _Section(*self._roots[folder], file.settings, self._cache, self._lasting) if plain else None
            self._sections[key] = section
        return self._sections[key]


class _Section:
    """The files of one project under one set of settings."""

    def __init__(self, root: str, deep: bool, settings: Settings, cache: CacheFolder, lasting: bool) -> None:
        self._root = root
        self._settings = settings
        self._cache = cache
        self._lasting = lasting
        self._state = ProjectState(root, deep)
        self._contexts: dict[str, str] = {}  # of files whose context may be another one
        self._dated: set[str] = set()  # results of files whose content is the same, though their times differ
        self._reading = Reading(self._digest, self._shape, self._concerned)
        seen_from = repository_of(root) or os.getcwd()  # as `in_project` does
        self._name = digest(repr((root, deep, seen_from, _what_matters(settings), _content_of(settings.baseline))))

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

    def look(self) -> None:
        """Find out which files there are."""
        self._state.look()

    def result(self, file: File, given: Source | None) -> Result | None:
        """The result of a file, with a text of its own if one is ``given``, if it is still valid."""
        place = self._place(file)
        key, kept = self._find(place, named=file.named)
        if kept is None:
            return None
        source = given
        if given is not None:
            if digest_of(given) != kept.digest:
                return None
        elif kept.diagnostics or not is_same(kept.stamp, stamp_of(file.path)):
            source = _read(file.path)
            if source is None or digest_of(source) != kept.digest:
                return None
            if not is_same(kept.stamp, stamp_of(file.path)):
                self._dated.add(key)
        if not self._holds(kept, place, file.path):
            return None
        top = self._root if os.path.isabs(file.path) else os.path.relpath(self._root)
        found = tuple(
            _with_paths(one, lambda inner: os.path.normpath(os.path.join(top, inner))) for one in kept.diagnostics
        )
        if not all(_is_sound(one, source) for one in found):
            return None
        return Result(file.path, found, source if found else None, resolved=kept.resolved)

    def _place(self, file: File) -> str:
        return self._inner(os.path.abspath(file.path))

    def _inner(self, path: str) -> str:
        """An absolute path relative to the root, with slashes."""
        start = os.path.join(self._root, "")
        return (path[len(start) :] if path.startswith(start) else os.path.relpath(path, start)).replace(os.sep, "/")

    def _find(self, place: str, *, named: bool) -> tuple[str, _Kept | None]:
        """What is kept of a file. That it was named makes no difference where a rule had it parsed."""
        kept = self._content.results.get(place)
        if kept is not None and (kept.around >= 0 or not named):
            return place, kept
        key = _key(place, named=named)
        return key, self._content.results.get(key)

    def _holds(self, kept: _Kept, place: str, path: str) -> bool:
        """Whether what counts of the other files is as it was."""
        if kept.around < 0:
            return True
        around = self._content.around
        if kept.around >= len(around) or self._changes.graph or not kept.takers.isdisjoint(self._changes.files):
            return False
        if around[kept.around].isdisjoint(self._changes.files):
            return True
        return not self._lasting and bool(kept.context) and self._context_of(place, path) == kept.context

    def _context_of(self, place: str, path: str) -> str:
        """The digest of what a file is analysed with now. Its path is as given: notes name files likewise."""
        from torchlint.engine.checker import InternalError, context_digest  # only for files that have changed

        if place not in self._contexts:
            source = _read(path)
            try:
                self._contexts[place] = context_digest(source, self._settings) if source is not None else ""
            except (InternalError, RecursionError):
                self._contexts[place] = ""
        return self._contexts[place]

    def keep(self, found: Sequence[tuple[File, Result]], start: int) -> None:
        """Keep results of a run that began at ``start``; nothing is written if nothing is new."""
        if not found and not self._dated:
            return
        new: dict[str, _Kept] = {}
        known: dict[str, FileState] = {}
        keys: set[str] = set()
        around: dict[frozenset[str], int] = {}
        old = self._content
        replaced = {key for file, _ in found for key in (self._place(file), _key(self._place(file), named=file.named))}
        for key, kept in old.results.items():
            place = key.removesuffix(_NAMED)
            if key not in replaced and self._holds(kept, place, self._state.place(place)):
                index = around.setdefault(old.around[kept.around], len(around)) if kept.around >= 0 else -1
                stamp = stamp_of(self._state.place(place), start) if key in self._dated else kept.stamp
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
            bare = tuple(
                _with_paths(one, lambda path: self._inner(os.path.abspath(path))) for one in result.diagnostics
            )
            place = self._place(file)
            key = place if basis.dependencies is not None else _key(place, named=file.named)
            stamp = stamp_of(file.path, start)
            new[key] = _Kept(stamp, basis.digest, index, others.context, others.takers, bare, result.resolved)
            known[place] = FileState((0, 0), basis.digest, basis.shape, basis.concerned)
            keys |= others.config_keys
        project = self._state.snapshot(known, frozenset(keys), start, self._reading) if around else None
        self._cache.write(self._name, encode(_Content(new, tuple(around), project)))

    # -- how the files of the project are read

    def _digest(self, place: str) -> str:
        source = _read(self._state.place(place))
        return digest_of(source) if source is not None else ""

    def _shape(self, place: str) -> str:
        from torchlint.project.store import StoreEntry  # only for files that have changed

        return StoreEntry(self._state.place(place), self._root).shape

    def _concerned(self, place: str) -> bool:
        from torchlint.engine.screens import screen  # only for files that have changed

        source = _read(self._state.place(place))
        return source is not None and screen(self._settings.screened_rules())(place, source.code)


def _has_applicable_fix(result: Result, settings: Settings) -> bool:
    return any(applicable(one, settings.unsafe_fixes) for one in result.diagnostics)


def _key(place: str, *, named: bool) -> str:
    return place + _NAMED if named else place


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


def _with_paths(diagnostic: Diagnostic, path_of: Callable[[str], str]) -> Diagnostic:
    """The diagnostic with other paths of files, and without the cause: places of one cause are joined already."""
    notes = tuple(
        replace(note, place=replace(note.place, path=path_of(note.place.path)))
        if note.place is not None and note.place.path
        else note
        for note in diagnostic.notes
    )
    others = tuple(_with_paths(one, path_of) for one in diagnostic.others)
    return replace(diagnostic, cause=None, notes=notes, others=others)


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
