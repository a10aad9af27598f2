"""What has changed in a project since an earlier run, as far as the analysis of its files depends on it.

Changes are found by size and time; where these differ, or the time is too recent to be trusted, by the content.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from torchlint.project.folder_scan import FolderScan, scan_folder

#: A file that changed less than this before it was looked at, in nanoseconds, may change again at the same time.
_YOUNG = 2_000_000_000
#: Files that say what a distribution installs.
_DISTRIBUTION = ("pyproject.toml", "setup.py", "setup.cfg")

#: Size and time of change of a file; (-1, 0) if it is not there, and the time 0 if it cannot be trusted.
Stamp = tuple[int, int]


def stamp_of(path: str, before: int | None = None) -> Stamp:
    """The stamp of a file. A time that is not well before ``before``, in nanoseconds, is not trusted."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, 0
    is_young = before is not None and status.st_mtime_ns > before - _YOUNG
    return status.st_size, 0 if is_young else status.st_mtime_ns


def is_same(old: Stamp, new: Stamp) -> bool:
    """Whether a file with these stamps has certainly not changed."""
    return old == new and (old[1] != 0 or old[0] == -1)


@dataclass(frozen=True)
class FileState:
    """A file at the time of a run."""

    stamp: Stamp
    digest: str = ""  #: of its content; empty if it was not read
    shape: str = ""  #: of what the import graph takes from it
    concerned: bool = False  #: whether a rule may report something in it


_UNKNOWN = FileState((0, 0))


@dataclass(frozen=True)
class RecordedProject:
    """A project at the time of a run."""

    files: Mapping[str, FileState]  #: its Python files, relative to the root
    distributions: tuple[str, ...]
    complete: bool
    outside: tuple[tuple[str, int, int], ...]  #: what says which packages are installed, with stamps
    config_keys: frozenset[str] = frozenset()  #: what configuration files were asked for
    configs: Mapping[str, FileState] = field(default_factory=dict)  #: `concerned`: it contains one of the keys


@dataclass(frozen=True)
class Changes:
    """What is different now."""

    graph: bool  #: which file imports which, or which files there are: everything may be different
    files: frozenset[str] = frozenset()  #: changed files, relative to the root


@dataclass(frozen=True)
class Reading:
    """How the content of a file is looked at: functions of its path relative to the root."""

    digest: Callable[[str], str]
    shape: Callable[[str], str]
    concerned: Callable[[str], bool]


@dataclass(frozen=True)
class Dependencies:
    """What the analysis of a file depends on, in addition to itself and to which file of the project imports which."""

    files: frozenset[str]  #: which may change the context, relative to the root of the project
    takers: frozenset[str]  #: which may take a name from the file, or use one
    context: str  #: digest of the context; empty if there is none
    config_keys: frozenset[str]  #: what configuration files were asked for so far


class ProjectState:
    """The files under a root as they are now; nothing is read before it is requested, or before `look`."""

    def __init__(self, root: str, deep: bool) -> None:
        self._root = root
        self._deep = deep

    @cached_property
    def _tree(self) -> FolderScan:
        return scan_folder(self._root, deep=self._deep)

    def look(self) -> None:
        """Find out which files there are."""
        self._tree  # noqa: B018

    def place(self, file: str) -> str:
        """The path of a file that is given relative to the root."""
        return os.path.join(self._root, file)

    @cached_property
    def _outside(self) -> tuple[tuple[str, int, int], ...]:
        names = [
            f"{folder}/{name}" if folder else name for folder in self._tree.distributions for name in _DISTRIBUTION
        ]
        with contextlib.suppress(OSError):
            names += sorted(name for name in os.listdir(self._root) if name.endswith((".dist-info", ".egg-info")))
        return tuple((name, *stamp_of(self.place(name))) for name in names)

    def changes(self, old: RecordedProject, reading: Reading) -> Changes:
        """What has changed since a snapshot."""
        everything = Changes(graph=True)
        listing = (self._tree.distributions, self._tree.complete, self._outside)
        if (old.distributions, old.complete, old.outside) != listing or old.files.keys() != set(self._tree.files):
            return everything
        changed = set()
        for file, state in old.files.items():
            if is_same(state.stamp, stamp_of(self.place(file))):
                continue
            if state.digest and reading.digest(file) == state.digest:
                continue
            if reading.shape(file) != state.shape or reading.concerned(file) != state.concerned:
                return everything
            changed.add(file)
        return everything if self._configs_changed(old, reading) else Changes(False, frozenset(changed))

    def _configs_changed(self, old: RecordedProject, reading: Reading) -> bool:
        if not old.config_keys:
            return False
        for file in {*old.configs, *self._tree.configs}:
            state = old.configs.get(file, FileState((-1, 0)))
            if is_same(state.stamp, stamp_of(self.place(file))):
                continue
            if state.digest and reading.digest(file) == state.digest:
                continue
            if state.concerned or self._contains(file, old.config_keys):
                return True
        return False

    def _contains(self, file: str, keys: Iterable[str]) -> bool:
        try:
            with open(self.place(file), encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            return False
        return any(key in text for key in keys)

    def snapshot(
        self, known: Mapping[str, FileState], config_keys: frozenset[str], start: int, reading: Reading
    ) -> RecordedProject:
        """The project as a run saw it that began at ``start``, in nanoseconds.

        ``known`` is what the run knows of some of the files; their stamps do not count. Of a file that has changed
        since the run began nothing is known.
        """
        files = {}
        for file in self._tree.files:
            size, changed = stamp_of(self.place(file))
            state = known.get(file, _UNKNOWN) if changed < start else _UNKNOWN
            files[file] = replace(state, stamp=(size, 0 if changed > start - _YOUNG else changed))
        configs = {}
        for file in self._tree.configs if config_keys else ():
            stamp = stamp_of(self.place(file), start)
            configs[file] = FileState(stamp, reading.digest(file), "", self._contains(file, config_keys))
        return RecordedProject(
            files, self._tree.distributions, self._tree.complete, self._outside, config_keys, configs
        )
