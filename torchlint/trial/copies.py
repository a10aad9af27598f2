"""Copies of a project in which a script can run without changing the user's files.

Code and other small files are copied. Larger files are links to the original files, and so are folders with more files
than a project has by itself: data is read where it is. `injected/sitecustomize.py` protects what a link leads to, and
it is compared at the end, because a library that opens files without Python could still write to it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.project.roots import find_root

LARGEST_COPY = 1 << 20  #: bytes of a file that is copied
FULL_FOLDER = 1000  #: entries of a folder that is data
MOST_ENTRIES = 100_000
#: Folders that no script needs to run.
LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache", ".tox", ".nox"}
)


class ProjectError(Exception):
    """The command cannot be run in a copy; the text is one line for the user."""


@dataclass(frozen=True)
class Program:
    """A command, and the project that it is part of."""

    command: tuple[str, ...]
    folder: str  #: where it runs
    root: str  #: of the project, a real path


def program_of(command: Sequence[str]) -> Program:
    """The program that a command runs in the current folder. Raises ProjectError."""
    folder = os.path.realpath(os.curdir)
    script = next((word for word in command if word.endswith(".py") and os.path.isfile(word)), None)
    root, has_folders = find_root(os.path.realpath(script or folder))
    root = os.path.realpath(root)
    if _is_within(root, folder):
        root, has_folders = folder, find_root(folder)[1]
    if not has_folders:
        raise ProjectError(f"{root} is not the folder of a project: put the script into a folder of its own")
    if not _is_within(folder, root):
        raise ProjectError(f"{script} is not in the current folder or its project: change to {root} first")
    return Program(tuple(command), folder, root)


@dataclass
class Copy:
    """A copy of a project, and the links in it."""

    program: Program
    root: str
    links: dict[str, tuple[int, int]] = field(default_factory=dict)  #: linked file -> size and time of modification

    @property
    def folder(self) -> str:
        """Where the command runs."""
        return self.place_of(self.program.folder)

    @property
    def command(self) -> list[str]:
        """The command with paths in the copy; that of the interpreter stays."""
        first, *rest = self.program.command
        first = os.path.abspath(first) if os.sep in first else first
        return [first, *(word.replace(self.program.root + os.sep, self.root + os.sep) for word in rest)]

    def place_of(self, original: str) -> str:
        """The path of the copy of a file or folder."""
        return self.root + original[len(self.program.root) :]

    def original_of(self, place: str) -> str | None:
        """The path of the file that a file of the copy is a copy of; None for one outside."""
        path = os.path.join(self.folder, place)
        if not _is_within(path, self.root) or os.path.islink(path):
            return None
        original = self.program.root + path[len(self.root) :]
        return original if os.path.isfile(original) else None

    def changed_links(self) -> list[str]:
        """The files behind links that are not as they were."""
        return [path for path, known in self.links.items() if _state(path) != known]


def make_copy(program: Program, root: Path, fixed: Mapping[str, bytes]) -> Copy:
    """Copy a project to a new folder, some of its files with other content. Raises ProjectError, OSError."""
    copy = Copy(program, os.path.realpath(root))
    for count, (original, place, is_link) in enumerate(_entries(program.root, copy.root)):
        if count > MOST_ENTRIES:
            raise ProjectError(f"{program.root} has more than {MOST_ENTRIES:,} files; run in the folder of the project")
        if original in fixed:
            Path(place).write_bytes(fixed[original])
            shutil.copymode(original, place)
        elif is_link:
            os.symlink(original, place)
            if os.path.isfile(original):
                copy.links[original] = _state(original)
        elif os.path.isdir(original):
            os.mkdir(place)
        else:
            shutil.copy2(original, place)
    return copy


def _entries(original: str, place: str) -> Iterator[tuple[str, str, bool]]:
    """What a folder and those in it contain: the path, the path in the copy, and whether it becomes a link."""
    yield original, place, False
    folders = [(original, place)]
    while folders:
        original, place = folders.pop()
        with os.scandir(original) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            target = os.path.join(place, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name in LEFT_OUT or os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                    continue
                is_data = _is_data(entry.path)
                yield entry.path, target, is_data
                if not is_data:
                    folders.append((entry.path, target))
            elif entry.is_symlink():
                yield os.path.realpath(entry.path), target, True
            elif entry.is_file():
                yield entry.path, target, entry.stat().st_size > LARGEST_COPY


def _is_data(folder: str) -> bool:
    """Whether a folder has many entries, none of them code."""
    names = os.listdir(folder)
    return len(names) > FULL_FOLDER and not any(name.endswith(".py") for name in names)


def _state(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _is_within(path: str, folder: str) -> bool:
    return (path + os.sep).startswith(folder.rstrip(os.sep) + os.sep)
