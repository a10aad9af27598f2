"""The texts of a project and what is known of each, shared between versions of the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise

from torchlint.cache.folder import digest
from torchlint.project.imports import Facts, Pieces, facts
from torchlint.project.loaded_paths import PathLoads
from torchlint.project.outlines import Outline, may_run, outline
from torchlint.project.picked import picked_from
from torchlint.project.searchpath import added_folders
from torchlint.source import reading
from torchlint.source.lexemes import behind
from torchlint.source.method_names import is_of_program
from torchlint.source.reading import is_notebook
from torchlint.source.source import SourceError

_WORD = re.compile(r"[^\W\d]\w*")
_MEMBER = re.compile(r"\.\s*([^\W\d]\w*)")
#: Behind ``def``: the name of a method.
_METHOD = re.compile(r"[ \t]*([^\W\d]\w*)\(\s*(?:self|cls)\b")
#: A list of the names that a star import takes: ``__all__ = ["a", "b"]``.
_EXPORTED = re.compile(
    r"^__all__(?:[ \t]*:[^=\r\n]*)?[ \t]*=[ \t]*[\[(]((?:[^\[\]()#]|#[^\r\n]*)*)[\])][ \t]*(?:#[^\r\n]*)?\r?$",
    re.MULTILINE,
)
#: Larger files contain data.
MAX_BYTES = 2_000_000
#: Notebooks contain the pictures that their cells drew.
MAX_NOTEBOOK_BYTES = 20_000_000


class StoreEntry:
    """One file. All but its path is computed on demand."""

    def __init__(self, path: str, root: str, given: str | None = None) -> None:
        self._path = path
        self._root = root
        self._given = given

    @cached_property
    def text(self) -> str | None:
        """Its code, as it is analysed; None if it cannot be read, is too large, or is not text."""
        try:
            if self._given is not None:
                text = self._given
            elif os.path.getsize(self._path) > (MAX_NOTEBOOK_BYTES if is_notebook(self._path) else MAX_BYTES):
                return None
            else:
                text = reading.read(self._path).code
        except (OSError, SourceError):
            return None
        return text if len(text) <= MAX_BYTES else None

    @cached_property
    def outline(self) -> Outline:
        """Its imports, by its text."""
        return outline(self.text) if self.text is not None else Outline()

    @cached_property
    def facts(self) -> Facts:
        """Its top-level statements and imports, by its syntax tree."""
        return facts(self.text) if self.text is not None else Facts()

    @cached_property
    def runs(self) -> bool:
        """Whether a top-level statement, other than an import or a definition, does something."""
        return self.text is not None and may_run(self.text) and self.facts.runs

    @cached_property
    def words(self) -> tuple[frozenset[str], ...]:
        """The words in each of its top-level statements, comments and strings included."""
        return tuple(map(_words_in, self._statements))

    @cached_property
    def members(self) -> tuple[frozenset[str], ...]:
        """The words in each of its top-level statements that name members: ``b`` of ``a.b``."""
        return tuple(map(_members_in, self._statements))

    @cached_property
    def methods(self) -> frozenset[str]:
        """The names of its methods, without those that methods of libraries may have."""
        return frozenset(match[1] for _, match in behind(self.text or "", "def ", _METHOD) if is_of_program(match[1]))

    @property
    def _statements(self) -> Iterator[str]:
        """The texts of its top-level statements, with the comments before them."""
        text, starts = self.text or "", self.facts.pieces.starts
        return (text[start:end] for start, end in pairwise((*starts, len(text))))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words in it, comments and strings included."""
        return frozenset(_WORD.findall(self.text or ""))

    @cached_property
    def picked_from(self) -> frozenset[str]:
        """The dotted names of what it may take names from as strings."""
        return picked_from(self.text or "")

    @cached_property
    def exported(self) -> frozenset[str] | None:
        """The names that it lists in ``__all__``; None if there is no such list, or more is done with it."""
        text = self.text or ""
        found = _EXPORTED.search(text) if text.count("__all__") == 1 else None
        return frozenset(_WORD.findall(found[1])) if found is not None else None

    @cached_property
    def added(self) -> tuple[str, ...]:
        """The folders that it adds to ``sys.path``."""
        if self.text is None or not self.outline.changes_path:
            return ()
        return added_folders(self.text, self._path, self._root)

    @property
    def _traits(self) -> tuple[object, ...]:
        found = self.outline
        return found.has_guard, found.changes_path, found.instantiates, _sorted_parts(found.loads)

    @property
    def shape(self) -> str:
        """A short name of what the import graph takes from it."""
        return digest(repr((self.outline.imports, *self._traits, self.added, self.runs)))

    def same_imports(self, other: StoreEntry) -> bool:
        """Whether the import graph is the same with ``other`` in place of this."""
        return (self.outline, self.added, self.runs) == (other.outline, other.added, other.runs)

    @property
    def pieces(self) -> Pieces:
        """Its top-level statements."""
        return self.facts.pieces


def _sorted_parts(loads: PathLoads) -> tuple[object, ...]:
    return sorted(loads.loaders), loads.calls, loads.paths


@lru_cache(maxsize=5_000)  # of a file that is being edited, most statements stay
def _words_in(statement: str) -> frozenset[str]:
    return frozenset(_WORD.findall(statement))


@lru_cache(maxsize=5_000)
def _members_in(statement: str) -> frozenset[str]:
    return frozenset(_MEMBER.findall(statement))


class Outlines(Mapping[str, Outline]):
    """The outlines of all files."""

    def __init__(self, entries: Mapping[str, StoreEntry]) -> None:
        self._entries = entries

    def __getitem__(self, file: str) -> Outline:
        return self._entries[file].outline

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
