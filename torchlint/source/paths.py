"""What the path of a file tells: its place in the project, whether it is vendored, whether it is in a package."""

from __future__ import annotations

import os
import re
from functools import lru_cache

#: Folders of code that was copied from another project, and is maintained there.
_VENDORED = re.compile(r"(^|/)(_?vendor(ed)?|third[-_]?party|3rd[-_]?party|externals?|extern|submodules)/")


def in_project(path: str) -> str:
    """A path as seen from the root of its repository, or else from the working directory, with slashes.

    It is the file's name alone if it is in neither.
    """
    if not path:
        return ""
    absolute = os.path.abspath(path)
    root = _repository(os.path.dirname(absolute)) or os.getcwd()
    inside = absolute.startswith(os.path.join(root, ""))
    return os.path.relpath(absolute, root).replace(os.sep, "/") if inside else os.path.basename(absolute)


def is_vendored(place: str) -> bool:
    """Whether the file at ``place``, a path within its project, is in a folder of other projects' code."""
    return bool(_VENDORED.search(place))


def is_in_package(path: str) -> bool:
    """Whether a file is a module of a package, so that other files may import what it defines."""
    return os.path.exists(os.path.join(os.path.dirname(path), "__init__.py"))


@lru_cache(maxsize=4096)
def _repository(folder: str) -> str | None:
    """The root of the git repository around a folder. A submodule is a part of the one around it."""
    marker = os.path.join(folder, ".git")
    if os.path.isdir(marker) or (os.path.isfile(marker) and _is_worktree(marker)):
        return folder
    above = os.path.dirname(folder)
    return _repository(above) if above != folder else None


def _is_worktree(marker: str) -> bool:
    """Whether a file called `.git` is that of a worktree, not of a submodule."""
    try:
        with open(marker, encoding="utf-8", errors="replace") as file:
            return "/worktrees/" in file.read(4096).replace(os.sep, "/")
    except OSError:
        return False
