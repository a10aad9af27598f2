"""What the choice of pieces asks of a project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from torchlint.project.imports import Facts


class Files(Protocol):
    """What the choice needs to know of a project. Files are paths relative to its root."""

    def text_of(self, file: str) -> str | None:
        """The text of a file, None if it cannot be read."""

    def facts_of(self, file: str) -> Facts:
        """What a file binds and imports."""

    def words_of(self, file: str) -> tuple[frozenset[str], ...]:
        """The words in each piece of a file."""

    def members_of(self, file: str) -> tuple[frozenset[str], ...]:
        """The words in each piece of a file that name members: ``b`` of ``a.b``."""

    def methods_of(self, file: str) -> frozenset[str]:
        """The names of the methods in a file, without those that methods of libraries may have."""

    def vocabulary(self, file: str) -> frozenset[str]:
        """The words in a file, known without its pieces."""

    def exported(self, file: str) -> frozenset[str] | None:
        """The names that a file lists in ``__all__``, known without its pieces; None if it does not list them."""

    def picked_from(self, file: str) -> frozenset[str]:
        """The dotted names of what a file may take names from as strings, known without its pieces."""

    def find_module(self, module: str, importer: str) -> str | None:
        """The file of a module, with leading dots if it is relative."""

    def importers_of(self, file: str) -> tuple[str, ...]:
        """The files that import a file."""

    def importers_of_name(self, file: str, name: str) -> tuple[str, ...]:
        """The files that import a name from a file."""

    def computed_by(self, file: str) -> frozenset[str]:
        """The files of the modules that a file imports by computed names, or loads by their paths."""

    def is_script(self, file: str) -> bool:
        """Whether a program starts with a file."""


def repeated(words: Sequence[frozenset[str]]) -> set[str]:
    """The words that more than one of some pieces contains."""
    counts = Counter(word for piece in words for word in piece)
    return {word for word, count in counts.items() if count > 1}
