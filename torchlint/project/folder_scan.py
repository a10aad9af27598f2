"""The Python files, notebooks and configuration files under the root of a project, found within bounds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice

from torchlint.project.configs import ENDINGS, MAX_FOLDER_FILES, listed
from torchlint.project.roots import DISTRIBUTION_FILES, is_distribution
from torchlint.settings.files import Ignore, ignores_above, is_ignored, read_ignore
from torchlint.settings.globs import Glob, matches
from torchlint.settings.keys import DEFAULT_EXCLUDE
from torchlint.source.paths import repository_of

#: A project with more files is not complete.
MAX_FILES = 50_000
#: Entries of folders that are read before the walk ends.
MAX_ENTRIES = 1_000_000
#: A folder with more entries contains data.
MAX_FOLDER_ENTRIES = 20_000
#: Files that make a folder a virtual environment.
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
#: What marks the root of a project.
_MARKS = (".git", "torchlint.toml", *DISTRIBUTION_FILES)
#: Files that make a folder the top of a distribution.
_DISTRIBUTION = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class FolderScan:
    """What a walk found. Paths are relative to the root, with slashes; the root itself is ``""``."""

    files: tuple[str, ...]  #: Python files and notebooks, sorted
    distributions: tuple[str, ...]  #: folders with a pyproject.toml, setup.py or setup.cfg, sorted
    complete: bool  #: whether no bound ended the walk
    configs: tuple[str, ...] = ()  #: YAML, JSON and TOML files that may be settings of its programs, sorted


def scan_folder(root: str, *, deep: bool = True) -> FolderScan:
    """The files of a project under ``root``, or only those directly in it if the walk is not ``deep``.

    Folders are read level by level, so that a bound cuts off what is deepest. Ignored files, folders of tools, virtual
    environments and build output are left out. So are other projects: repositories, but not submodules; and if nothing
    marks the root as a project, also distributions. Links to folders are not followed, links to files outside of the
    root are left out.
    """
    exclude = tuple(Glob(pattern, root) for pattern in DEFAULT_EXCLUDE)
    real_root = os.path.realpath(root)
    files: list[str] = []
    distributions: list[str] = []
    configs: list[str] = []
    complete = True
    others = False  # whether distributions below the root are other projects
    seen = 0
    level: list[tuple[str, tuple[Ignore, ...]]] = [("", ignores_above(root))]
    while level:
        following: list[tuple[str, tuple[Ignore, ...]]] = []
        for folder, above in level:
            place = os.path.join(root, *folder.split("/")) if folder else root
            entries = _entries(place)
            seen += len(entries)
            if len(entries) > MAX_FOLDER_ENTRIES or seen > MAX_ENTRIES or len(files) > MAX_FILES:
                complete = False
                continue
            names = {entry.name for entry in entries}
            if folder and (_is_foreign(folder, names) or _is_project(place, names, others)):
                continue
            if not folder:
                others = names.isdisjoint(_MARKS)
            if not names.isdisjoint(_DISTRIBUTION) and is_distribution(names):
                distributions.append(folder)
            own = read_ignore(place, os.path.join(place, ".gitignore")) if ".gitignore" in names else ()
            ignores = (*above, *own)
            has_data = sum(name.endswith(ENDINGS) for name in names) > MAX_FOLDER_FILES
            endings = (".py", ".ipynb") if has_data else (".py", ".ipynb", *ENDINGS)
            for entry in entries:
                is_folder = _is_folder(entry)
                if not is_folder and not (entry.name.endswith(endings) and _is_file_within(entry, real_root)):
                    continue
                inner = os.path.join(place, entry.name)
                if (is_folder and not deep) or matches(exclude, inner) or is_ignored(inner, is_folder, ignores):
                    continue
                name = f"{folder}/{entry.name}" if folder else entry.name
                if is_folder:
                    following.append((name, ignores))
                else:
                    (configs if name.endswith(ENDINGS) else files).append(name)
        level = sorted(following, key=lambda item: item[0])
    if len(files) > MAX_FILES:
        complete = False
        files = sorted(files, key=lambda name: (name.count("/"), name))[:MAX_FILES]
    return FolderScan(tuple(sorted(files)), tuple(sorted(distributions)), complete, listed(configs))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder contains, in order; one more than the bound at most. A folder that cannot be read is empty."""
    try:
        with os.scandir(folder) as scan:
            return sorted(islice(scan, MAX_FOLDER_ENTRIES + 1), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_foreign(folder: str, names: set[str]) -> bool:
    """Whether a folder is a virtual environment, or what a build left."""
    if not names.isdisjoint(_ENVIRONMENT):
        return True
    return folder.rpartition("/")[2] == "build" and "__init__.py" not in names


def _is_project(folder: str, names: set[str], distributions: bool) -> bool:
    """Whether a folder is another project: a repository, or a distribution where ``distributions`` are."""
    if ".git" in names and repository_of(folder) == folder:
        return True
    return distributions and is_distribution(names)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file_within(entry: os.DirEntry[str], root: str) -> bool:
    """Whether an entry is a file, or a link to one under ``root``."""
    try:
        if not entry.is_file():
            return False
        return not entry.is_symlink() or os.path.realpath(entry.path).startswith(root.rstrip(os.sep) + os.sep)
    except OSError:  # a link to itself
        return False
