"""The names that a file may take from modules of the project by its star imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torchlint.project.files import Files
from torchlint.project.imports import Facts


@dataclass(frozen=True)
class Stars:
    """The star imports of a file, by their indices."""

    targets: dict[int, str] = field(default_factory=dict)  #: the files of the project that they take names from
    listing: dict[str, list[int]] = field(default_factory=dict)  #: by name those of modules with it in ``__all__``
    unlisted: set[int] = field(default_factory=set)  #: those of modules without such a list


class StarImports:
    """Answers for one choice of pieces."""

    def __init__(
        self, files: Files, facts: Callable[[str], Facts], find_module: Callable[[str, str], str | None]
    ) -> None:
        self._files = files
        self._facts = facts
        self._find_module = find_module
        self._known: dict[str, Stars] = {}
        self.glanced_at: set[str] = set()  #: files of which only ``__all__`` was read

    def of(self, file: str) -> Stars:
        """What the star imports of a file may give it."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = Stars()
            for index, star in enumerate(self._facts(file).stars):
                target = self._find_module(star.module, file)
                if target is None or target == file:
                    continue
                known.targets[index] = target
                exported = self._files.exported(target)
                if exported is None:
                    known.unlisted.add(index)
                else:
                    self.glanced_at.add(target)
                for name in exported or ():
                    known.listing.setdefault(name, []).append(index)
        return known
