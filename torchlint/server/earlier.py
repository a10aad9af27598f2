"""Results of earlier runs, for files that are open as they are on disk. Used by the worker alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from torchlint.cache.folder import CacheFolder
from torchlint.engine.checker import basis
from torchlint.engine.kept import KeptResults
from torchlint.engine.results import Mode, Result
from torchlint.findings.diagnostic import Diagnostic
from torchlint.server.documents import Snapshot
from torchlint.settings.files import File
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.source import SourceError


class EarlierResults:
    """What the caches of the open folders contain.

    Results are used while all open texts are saved. They are stored only until a file changes on disk, because after
    that the files of a project in memory have been read at different times.
    """

    def __init__(self) -> None:
        self._start = time.time_ns()  #: before any file of a project in memory was read
        self._stores = True
        self._kept: dict[str, KeptResults] = {}  #: by folder of the cache
        self._new: dict[str, dict[str, tuple[File, Result]]] = {}  #: by folder of the cache and path
        self._is_written = True
        self._ignored: set[str] = set()
        self._opened: Mapping[str, str] | None = None
        self._are_saved = False

    def find(
        self, snapshot: Snapshot, settings: Settings, cache: CacheFolder | None, opened: Mapping[str, str]
    ) -> Sequence[Diagnostic] | None:
        """The diagnostics of a snapshot, if an earlier run has found them and they are still valid.

        It is called before the project of a file is read. ``opened`` are the texts of all open files, by path.
        """
        if cache is None:
            return None
        file = File(snapshot.path, settings, named=False)
        self._of(cache).look(file)
        if not self._is_as_saved(snapshot, opened) or snapshot.path in self._ignored:
            return None
        result = self._of(cache).result(file, Mode.CHECK, snapshot.source)
        return result.diagnostics if result is not None else None

    def add(
        self,
        snapshot: Snapshot,
        settings: Settings,
        cache: CacheFolder | None,
        opened: Mapping[str, str],
        diagnostics: Sequence[Diagnostic],
    ) -> None:
        """Have the diagnostics of a snapshot written by the next `write`."""
        if cache is None or not self._stores or not self._is_as_saved(snapshot, opened) or settings.plugins:
            return
        result = Result(snapshot.path, tuple(diagnostics), basis=basis(snapshot.source, settings, diagnostics))
        self._new.setdefault(cache.path, {})[snapshot.path] = File(snapshot.path, settings, named=False), result
        self._is_written = False

    def write(self) -> None:
        """Write what was added to the caches."""
        if not self._is_written:
            self._is_written = True
            for folder, results in self._new.items():
                self._kept[folder].keep(results.values())

    def ignore(self, path: str) -> None:
        """Use no results of a file any more: its fixes are wanted, and anyone may have written a cache."""
        self._ignored.add(path)

    def changed(self) -> None:
        """A file has changed on disk: look up results again, and store none."""
        self._stores, self._is_written = False, True
        self._new.clear()
        self._kept.clear()
        self._opened = None

    def forget(self) -> None:
        """All projects will be read again."""
        self.changed()
        self._stores = True
        self._start = time.time_ns()

    def _of(self, cache: CacheFolder) -> KeptResults:
        if cache.path not in self._kept:
            self._kept[cache.path] = KeptResults(cache, start=self._start, lasting=True)
        return self._kept[cache.path]

    def _is_as_saved(self, snapshot: Snapshot, opened: Mapping[str, str]) -> bool:
        """Whether a Python file and all that are open are as they are on disk."""
        if snapshot.is_notebook or not snapshot.stored:
            return False
        if self._opened is None or opened != self._opened:
            self._opened = dict(opened)
            self._are_saved = all(_is_saved(path, text) for path, text in opened.items())
        return self._are_saved


def _is_saved(path: str, text: str) -> bool:
    try:
        return reading.read(path).text == text
    except (OSError, SourceError):
        return False
