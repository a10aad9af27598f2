"""Which file of a tree a module is, by Python's rules for one folder of ``sys.path`` after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from torchlint.source.module_patterns import regex_of

#: A program that picks one of more modules than this may mean any file.
_MAX_MODULES = 80


def folder_of(file: str) -> str:
    """The folder of a path of the tree; that of a file at the root is ``""``."""
    return file.rpartition("/")[0]


def joined(folder: str, name: str) -> str:
    """A path of the tree below a folder."""
    return f"{folder}/{name}" if folder and name else folder or name


def ancestors(folder: str) -> list[str]:
    """A folder and those above it, up to the root."""
    found = [folder]
    while folder:
        folder = folder_of(folder)
        found.append(folder)
    return found


class Layout:
    """The modules of a tree. Paths are relative to its root, as in ``torchlint.project.folder_scan``."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders with a Python file in or below them."""
        found = {""}
        for file in self.files:
            folder = folder_of(file)
            while folder not in found:
                found.add(folder)
                folder = folder_of(folder)
        return frozenset(found)

    @cached_property
    def names(self) -> dict[str, frozenset[str]]:
        """Folder -> the names of the modules and packages directly in it."""
        found: dict[str, set[str]] = {folder: set() for folder in self.folders}
        for folder in self.folders:
            if folder:
                found[folder_of(folder)].add(folder.rpartition("/")[2])
        for file in self.files:
            name = file.rpartition("/")[2]
            if name.endswith(".py") and name != "__init__.py":
                found[folder_of(file)].add(name[:-3])
        return {folder: frozenset(names) for folder, names in found.items()}

    @cached_property
    def places(self) -> dict[str, tuple[str, ...]]:
        """Name of a module or package -> the folders that contain it, sorted."""
        found: dict[str, list[str]] = {}
        for folder in sorted(self.names):
            for name in self.names[folder]:
                found.setdefault(name, []).append(folder)
        return {name: tuple(folders) for name, folders in found.items()}

    def folders_named(self, module: str) -> list[str]:
        """The folders that a dotted package may be, whatever ``sys.path`` is, sorted."""
        path = module.replace(".", "/")
        found = (joined(folder, path.rpartition("/")[2]) for folder in self.places.get(path.rpartition("/")[2], ()))
        return [folder for folder in found if f"/{folder}".endswith(f"/{path}")]

    def modules_like(self, folder: str, pattern: str) -> list[str]:
        """The dotted names of the modules below a folder that have a pattern, sorted; none if there are very many.

        The ``*`` of ``*.net`` is a part of one name.
        """
        found = [""]
        for part in pattern.split("."):
            regex = re.compile(regex_of(part, r"\w*"))
            names = ((name, self.names.get(joined(folder, name.replace(".", "/")), ())) for name in found)
            found = [f"{name}.{inner}".lstrip(".") for name, all_ in names for inner in all_ if regex.fullmatch(inner)]
        modules = sorted(name for name in found if self.file_at(folder, name) is not None)
        return modules if len(modules) <= _MAX_MODULES else []

    def file_at(self, folder: str, module: str) -> str | None:
        """The file of a dotted module below a folder: a package's __init__.py before a module."""
        base = joined(folder, module.replace(".", "/"))
        package = joined(base, "__init__.py")
        if package in self.files:
            return package
        return base + ".py" if module and base + ".py" in self.files else None

    def find(self, path: Sequence[str], module: str) -> str | None:
        """The file of an absolute dotted module as Python finds it with these folders as ``sys.path``.

        The first folder with a module or package of the first name decides; a folder without __init__.py only if
        none has it.
        """
        top = module.partition(".")[0]
        portions = []
        for folder in path:
            if top not in self.names.get(folder, ()):
                continue
            if self.file_at(folder, top) is not None:
                return self.file_at(folder, module)
            portions.append(folder)
        for folder in portions:
            file = self.file_at(folder, module)
            if file is not None:
                return file
        return None

    def relative(self, importer: str, level: int, module: str) -> str | None:
        """The file of a relative import in ``importer``."""
        folder = self.package(importer, level)
        return self.file_at(folder, module) if folder is not None else None

    def package(self, importer: str, level: int) -> str | None:
        """The folder that a relative import in ``importer`` starts from; None above the root."""
        folder = folder_of(importer)
        for _ in range(level - 1):
            if not folder:
                return None
            folder = folder_of(folder)
        return folder

    def home(self, file: str) -> str:
        """The folder above the outermost package of a file: the one that makes its absolute imports work."""
        folder = folder_of(file)
        while folder and joined(folder, "__init__.py") in self.files:
            folder = folder_of(folder)
        return folder
