"""The pieces of a file: its top-level statements, each parsed by itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from torchlint.source.parsing import (
    TOO_DEEP,
    ParseError,
    is_too_deep,
    known_tree,
    parse_texts,
    piece_starts,
    python_tree,
)
from torchlint.source.stack import with_large_stack
from torchlint.source.timing import count, phase

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.syntax.places import ConvertedPlaces, Places


@dataclass(eq=False)
class Parsed:
    """The text of a piece and what is known of it, wherever the piece is in a file."""

    text: str
    tree: cst.Module
    by_libcst: bool  #: False: made from Python's own tree, without white space, punctuation and comments

    @cached_property
    def places(self) -> Places | ConvertedPlaces:
        """The offsets of its nodes."""
        from torchlint.model.syntax import places  # not needed, so not imported, for most files

        return (places.Places if self.by_libcst else places.ConvertedPlaces)(self.tree, self.text)


@dataclass(frozen=True)
class Piece:
    """Top-level statements that were parsed by themselves: usually one, with the comments before it."""

    start: int  #: offset of its first character in the file
    parsed: Parsed

    @property
    def text(self) -> str:
        """Its text."""
        return self.parsed.text

    @property
    def tree(self) -> cst.Module:
        """Its tree."""
        return self.parsed.tree


def parse_pieces(text: str, name: str = "") -> list[Piece]:
    """``text`` in pieces, each with its libcst tree. Raises ParseError; no input overflows the stack.

    A piece that an earlier text of this name had too is not parsed again: of a file that is being typed or fixed,
    little changes from one call to the next.
    """
    syntax_error: ParseError | None = None
    try:
        starts = piece_starts(text, python_tree(text))
    except ParseError as error:
        if error.final:
            raise
        syntax_error, starts = error, [0]
    if sys.version_info < (3, 11) and is_too_deep(text):
        raise ParseError(TOO_DEEP)
    try:
        pieces = parse_spans(text, list(zip(starts, [*starts[1:], len(text)], strict=True)), name)
    except ParseError:
        if syntax_error is None:
            parse_texts([text])  # says where in the file
        raise syntax_error or ParseError(TOO_DEEP) from None
    _parsed[name].before = {}
    return pieces  # even after a syntax error: the file may be newer Python than the one that runs


def parse_spans(text: str, spans: Sequence[tuple[int, int]], name: str) -> list[Piece]:
    """The pieces at some places of a text, in order. Raises ParseError.

    What was parsed of this text, or of the one before, under this name is not parsed again.
    """
    texts = [text[start:end] for start, end in spans]
    memory = _parsed.get(name)
    if memory is None or memory.text != text:
        memory = _Memory(text, memory.pieces if memory is not None else {})
    known = {piece: iter(parsed) for piece, parsed in (memory.before | memory.pieces).items()}
    kept = [next(known.get(piece, iter(())), None) for piece in texts]  # nodes are distinguished by identity
    new = iter(_parse(text, [span for span, parsed in zip(spans, kept, strict=True) if parsed is None]))
    pieces = [Piece(start, parsed or next(new)) for (start, _), parsed in zip(spans, kept, strict=True)]
    if len(_parsed) > _MAX_NAMES:
        _parsed.clear()
    memory.pieces |= _by_text(pieces)
    _parsed[name] = memory
    return pieces


@dataclass
class _Memory:
    """What was parsed of a text: by the texts of its pieces, as many trees as it has pieces of this text."""

    text: str
    before: dict[str, list[Parsed]]  #: the same of the text before
    pieces: dict[str, list[Parsed]] = field(default_factory=dict)


def _by_text(pieces: Sequence[Piece]) -> dict[str, list[Parsed]]:
    """What was parsed of some pieces, by their texts."""
    found: dict[str, list[Parsed]] = {}
    for piece in pieces:
        found.setdefault(piece.text, []).append(piece.parsed)
    return found


def _parse(text: str, spans: Sequence[tuple[int, int]]) -> list[Parsed]:
    """The pieces of a text at some places. Raises ParseError."""
    if not spans:
        return []
    pieces = [text[start:end] for start, end in spans]
    count("pieces parsed", len(pieces))
    count("characters parsed", sum(map(len, pieces)))
    with phase("syntax trees"):
        try:
            trees = _converted(text, spans)
        except RecursionError:
            trees = with_large_stack(lambda: _converted(text, spans))
    rest = iter(parse_texts([piece for piece, tree in zip(pieces, trees, strict=True) if tree is None]))
    return [Parsed(piece, tree or next(rest), tree is None) for piece, tree in zip(pieces, trees, strict=True)]


def _converted(text: str, spans: Sequence[tuple[int, int]]) -> list[cst.Module | None]:
    """The trees of pieces, made from Python's own; None if libcst has to parse one. Raises RecursionError."""
    from torchlint.model.syntax.conversion import converted, converted_pieces
    from torchlint.model.syntax.expressions import UnconvertibleError

    known = known_tree(text)
    if known is not None:
        return converted_pieces(text, known, spans)
    found: list[cst.Module | None] = []
    for start, end in spans:
        try:
            found.append(converted(text[start:end]))
        except (UnconvertibleError, SyntaxError, ValueError, MemoryError):
            found.append(None)
    return found


#: By name what was parsed of the last text of this name.
_parsed: dict[str, _Memory] = {}
#: So many names are remembered.
_MAX_NAMES = 500
