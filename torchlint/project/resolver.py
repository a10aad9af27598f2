"""Modules -> files, as a file that is imported by the programs of a project sees them."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.project.known import COMMON, INSTALLED, STANDARD
from torchlint.project.layout import Layout, ancestors, folder_of, joined


class ModuleResolver:
    """Finds absolute modules in a tree.

    ``base`` are the folders that are on ``sys.path`` whatever runs; ``distributions`` those of which the packages may
    be installed.
    """

    def __init__(self, layout: Layout, base: Sequence[str], distributions: Sequence[str]) -> None:
        self.layout = layout
        self._base = tuple(base)
        folders = [place for folder in distributions for place in (folder, joined(folder, "src"))]
        self._distributions = tuple(folder for folder in folders if folder in layout.folders and folder not in base)
        self._guesses: dict[tuple[str, str], str | None] = {}
        self._in_larger: dict[str, str | None] = {}

    def is_certain(self, module: str) -> bool:
        """Whether all files that can import a module see the same one."""
        places = self.layout.places.get(module.partition(".")[0], ())
        return not places or (len(places) == 1 and places[0] in self._base and module.partition(".")[0] not in STANDARD)

    def find(self, module: str, importer: str, path: Sequence[str]) -> str | None:
        """The file of ``module`` in a program whose ``sys.path`` begins with ``path``."""
        top = module.partition(".")[0]
        if top not in self.layout.places:
            if top in STANDARD or top in INSTALLED:
                return None
            if module not in self._in_larger:
                self._in_larger[module] = self._in_larger_repository(module)
            return self._in_larger[module]
        file = self.layout.find(path, module)
        if file is not None or any(self.layout.file_at(folder, top) for folder in path):
            return file
        key = (folder_of(importer), module)
        if key not in self._guesses:
            self._guesses[key] = self._elsewhere(module, importer)
        return self._guesses[key]

    def _in_larger_repository(self, module: str) -> str | None:
        """The file of a module that is named from the root of a repository which this one is a part of.

        So ``company.team.detector.tools.train`` in the repository of the package ``detector``.
        """
        parts = module.split(".")
        for index in range(1, len(parts)):
            package = self.layout.file_at("", parts[index]) if parts[index] not in COMMON else None
            if package is not None and package.endswith("/__init__.py"):
                found = (self.layout.file_at("", ".".join(parts[start:])) for start in (index, index + 1))
                return next((file for file in found if file is not None), None)
        return None

    def _elsewhere(self, module: str, importer: str) -> str | None:
        """The file of a module that is not in the folders a program adds to ``sys.path``."""
        layout = self.layout
        top = module.partition(".")[0]
        if top in STANDARD:
            return None
        home = layout.home(importer)
        if importer.startswith(joined(home, top) + "/"):  # in the package itself, wherever that is installed from
            return layout.file_at(home, module)
        file = layout.find(self._base, module)
        if top in INSTALLED:
            return file
        above = [folder for folder in ancestors(folder_of(importer)) if folder not in self._base]
        near = [folder for folder in above if layout.file_at(folder, module) is not None]
        if home in near:
            return layout.file_at(home, module)
        if near:
            return layout.file_at(near[0], module) if len(near) == 1 and file is None else None
        if file is None:
            found = {layout.file_at(folder, module) for folder in self._distributions} - {None}
            return found.pop() if len(found) == 1 else self._only(module, importer)
        return file

    def _only(self, module: str, importer: str) -> str | None:
        """The file of a module that only one folder near a file has: ``PYTHONPATH`` may contain that folder.

        Near are folders below its own, or else below one above it that is not the root.
        """
        places = self.layout.places[module.partition(".")[0]]
        own = folder_of(importer)
        for folder in ancestors(own):
            if not folder and own:
                return None
            inside = [place for place in places if place.startswith(f"{folder}/" if folder else "")]
            if inside:
                return self.layout.file_at(inside[0], module) if len(inside) == 1 else None
        return None
