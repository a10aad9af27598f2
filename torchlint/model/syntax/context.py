"""The parts of other files that a file is analysed with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.model.syntax.pieces import Piece


@dataclass(frozen=True, eq=False)
class ContextFile:
    """A file of the project, of which some pieces are known."""

    path: str
    text: str
    spans: tuple[tuple[int, int], ...]  #: where the pieces begin and end in the text, in order; at least one
    parse: Callable[[ContextFile], Sequence[Piece]]

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """The pieces with their trees, those that cannot be parsed left out."""
        return self.parse(self)

    @property
    def known_text(self) -> str:
        """The text of the pieces."""
        return "".join(self.text[start:end] for start, end in self.spans)


@dataclass(frozen=True)
class Context:
    """What else of its project a file is analysed with."""

    root: str = ""  #: the folder that all paths here are relative to
    path: str = ""  #: of the file itself
    files: tuple[ContextFile, ...] = ()
    #: the dotted name of a module, with leading dots if it is relative, and the file that imports it -> the file
    resolve: Callable[[str, str], str | None] = lambda module, importer: None


NO_CONTEXT = Context()
