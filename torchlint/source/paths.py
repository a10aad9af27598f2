"""What the path of a file tells: its place in the project, whether it is vendored, whether it is in a package."""

from __future__ import annotations

import os
import re
from functools import lru_cache

#: Folders of code that was copied from another project, and is maintained there.
_VENDORED = re.compile(r"(^|/)(_?vendor(ed)?|third[-_]?party|3rd[-_]?party|externals?|extern|submodules)/")

#: Folders of scripts.
_SCRIPTS = re.compile(r"(^|/)(examples?|demos?|scripts|tools)/")

#: A table of ``pyproject.toml`` or ``setup.cfg`` that describes a distribution.
_INSTALLS = re.compile(r"^\[(project|build-system|tool\.poetry|tool\.flit\.\w+|metadata|options)\]", re.MULTILINE)

#: Arguments of ``setup`` that list Python modules. Without them, one with ``ext_modules`` only builds an extension.
_MODULES = re.compile(r"\b(?:packages|py_modules|package_dir)\b|\*\*")


def in_project(path: str) -> str:
    """A path as seen from the root of its repository, or else from the working directory, with slashes.

    It is the file's name alone if it is in neither.
    """
    if not path:
        return ""
    absolute = os.path.abspath(path)
    root = repository_of(os.path.dirname(absolute)) or os.getcwd()
    inside = absolute.startswith(os.path.join(root, ""))
    return os.path.relpath(absolute, root).replace(os.sep, "/") if inside else os.path.basename(absolute)


def is_vendored(place: str) -> bool:
    """Whether the file at ``place``, a path within its project, is in a folder of other projects' code."""
    return bool(_VENDORED.search(place))


def is_in_package(path: str) -> bool:
    """Whether a file is a module of a package, so that other files may import what it defines."""
    return os.path.exists(os.path.join(os.path.dirname(path), "__init__.py"))


def is_importable(path: str) -> bool:
    """Whether code out of sight may import a file: a module of a package that is installed, or that a project installs.

    A package next to the scripts of a project without a ``setup.py`` or the like is only for these scripts.
    """
    return is_in_package(path) and _is_installed(_above_package(os.path.dirname(os.path.abspath(path))))


def is_installed(path: str) -> bool:
    """Whether code out of sight may import a file because a project around it, or around its folder, installs it.

    Scripts in folders such as ``examples/mnist`` that are not packages are not installed.
    """
    if _SCRIPTS.search(in_project(path)) and not is_in_package(path):
        return False
    return _is_installed(os.path.dirname(os.path.abspath(path)))


def _above_package(folder: str) -> str:
    """The folder that contains the outermost package around ``folder``."""
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


@lru_cache(maxsize=4096)
def _is_installed(folder: str) -> bool:
    """Whether packages in ``folder`` are installed, or a project around it says how they are."""
    try:
        if any(name.endswith((".dist-info", ".egg-info")) for name in os.listdir(folder)):
            return True
    except OSError:
        return True
    if _has_install_settings(folder):
        return True
    above = os.path.dirname(folder)
    is_root = above == folder or os.path.exists(os.path.join(folder, ".git"))
    return not is_root and above != os.path.dirname(above) and _is_installed(above)


def _has_install_settings(folder: str) -> bool:
    """Whether a file of ``folder`` tells pip how to install the Python modules below."""
    text = _content(os.path.join(folder, "setup.py"))
    if text is not None and ("ext_modules" not in text or _MODULES.search(text)):
        return True
    settings = (_content(os.path.join(folder, name)) for name in ("setup.cfg", "pyproject.toml"))
    return any(text is not None and _INSTALLS.search(text) is not None for text in settings)


def _content(path: str) -> str | None:
    """The beginning of a file; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1_000_000)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def repository_of(folder: str) -> str | None:
    """The root of the git repository around a folder. A submodule is a part of the one around it."""
    marker = os.path.join(folder, ".git")
    if os.path.isdir(marker) or (os.path.isfile(marker) and _is_worktree(marker)):
        return folder
    above = os.path.dirname(folder)
    return repository_of(above) if above != folder else None


def _is_worktree(marker: str) -> bool:
    """Whether a file called `.git` is that of a worktree, not of a submodule."""
    try:
        with open(marker, encoding="utf-8", errors="replace") as file:
            return "/worktrees/" in file.read(4096).replace(os.sep, "/")
    except OSError:
        return False
