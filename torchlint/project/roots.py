"""Where the project of a file begins."""

from __future__ import annotations

import os

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
    repository, else the nearest folder with a file that distributions have, else the working directory if the file is
    below it, else the folder above the outermost package. It is never the home folder, the folder of temporary files or
    the root of the filesystem: of a file directly there, the project is just the files next to it.
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
    for is_root in (has_settings, _is_repository, _is_distribution, _is_working_directory):
        for folder in within:
            if is_root(folder):
                return folder, True
    package = start
    for above in within[1:]:
        if not os.path.isfile(os.path.join(package, "__init__.py")):
            break
        package = above
    return package, True


def in_root(path: str) -> str:
    """A path relative to the root of its project, with slashes."""
    absolute = os.path.abspath(path)
    return os.path.relpath(absolute, find_root(absolute)[0]).replace(os.sep, "/")


def _is_repository(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _is_distribution(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in DISTRIBUTION_FILES)


def _is_working_directory(folder: str) -> bool:
    return folder == os.path.abspath(os.curdir)


def _is_barrier(folder: str, shared: frozenset[str]) -> bool:
    """Whether a folder contains more than one project can: a shared one, or the root of a filesystem."""
    return folder == os.path.dirname(folder) or folder in shared


def _shared_folders() -> frozenset[str]:
    """The home folder, and the folders of temporary files."""
    names = ["~", *_TEMPORARY, *(os.environ.get(name, "~") for name in _TEMPORARY_VARIABLES)]
    return frozenset(os.path.abspath(os.path.expanduser(name)) for name in names)
