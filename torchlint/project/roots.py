"""Where the project of a file begins."""

from __future__ import annotations

import os
from collections.abc import Collection

from torchlint.settings.layers import has_settings
from torchlint.source.paths import repository_of

#: Files that distributions have.
DISTRIBUTION_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml", "LICENSE")

#: Folders for temporary files, and the environment variables that name others, as `tempfile` looks for them.
_TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp")
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")


def find_root(path: str) -> tuple[str, bool]:
    """The root folder of the project of a file or folder, and whether the folders below it belong to the project.

    It is the nearest folder upwards with settings, within the repository if there is one; else the root of the
    repository, else the nearest folder with a file that distributions have. If there is none of these, it is the
    outermost folder on the way up from the file that contains Python files or a package on that way, or the working
    directory if it is above. It is never the home folder, the folder of temporary files or the root of the filesystem:
    of a file directly there, the project is just the files next to it.
    """
    start = os.path.abspath(path)
    if not os.path.isdir(start):
        start = os.path.dirname(start)
    shared = _shared_folders()
    if _is_barrier(start, shared):
        return start, False
    folders = [start]
    while not _is_barrier(os.path.dirname(folders[-1]), shared):
        folders.append(os.path.dirname(folders[-1]))
    repository = repository_of(start)
    within = folders[: folders.index(repository) + 1] if repository in folders else folders
    for is_root in (has_settings, _is_repository, _is_distribution):
        for folder in within:
            if is_root(folder):
                return folder, True
    outermost = start
    for above in within[1:]:
        if not os.path.isfile(os.path.join(outermost, "__init__.py")) and not _has_python_files(above):
            break
        outermost = above
    current = os.path.abspath(os.curdir)
    return current if current in within[within.index(outermost) :] else outermost, True


def in_root(path: str) -> str:
    """A path relative to the root of its project, with slashes."""
    absolute = os.path.abspath(path)
    return os.path.relpath(absolute, find_root(absolute)[0]).replace(os.sep, "/")


def _is_repository(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def is_distribution(names: Collection[str]) -> bool:
    """Whether files with these names make their folder a distribution; in a package, ``setup.py`` may be a module."""
    found = [name for name in DISTRIBUTION_FILES if name in names]
    return bool(found) and not (found == ["setup.py"] and "__init__.py" in names)


def _is_distribution(folder: str) -> bool:
    names = (*DISTRIBUTION_FILES, "__init__.py")
    return is_distribution([name for name in names if os.path.isfile(os.path.join(folder, name))])


def _has_python_files(folder: str) -> bool:
    """Whether a folder directly contains modules or notebooks; False if it cannot be read."""
    try:
        return any(name.endswith((".py", ".ipynb")) for name in os.listdir(folder))
    except OSError:
        return False


def _is_barrier(folder: str, shared: frozenset[str]) -> bool:
    """Whether a folder contains more than one project can: a shared one, or the root of a filesystem."""
    return folder == os.path.dirname(folder) or folder in shared


def _shared_folders() -> frozenset[str]:
    """The home folder, and the folders of temporary files."""
    names = ["~", *_TEMPORARY, *(os.environ.get(name, "~") for name in _TEMPORARY_VARIABLES)]
    return frozenset(os.path.abspath(os.path.expanduser(name)) for name in names)
