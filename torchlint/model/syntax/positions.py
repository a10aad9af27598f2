"""Where nodes stand in the text; worked out for the pieces of a file in which somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchlint.parsing import Piece


class Positions:
    """The pieces of a file put together, and the offsets of their nodes."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._piece_of: dict[cst.CSTNode, Piece] = {}
        self._latest = pieces[0]
        self.root = self.add(pieces)

    def add(self, pieces: Sequence[Piece]) -> cst.Module:
        """The pieces of one more file, whose offsets count on from the files before, as one module."""
        for piece in pieces:
            self._piece_of |= dict.fromkeys(piece.tree.body, piece)
        return cst.Module(
            body=[statement for piece in pieces for statement in piece.tree.body],
            default_indent=_indent(pieces),
            default_newline=pieces[0].tree.default_newline,
        )

    def span(self, node: cst.CSTNode, statement: cst.CSTNode | None) -> tuple[int, int]:
        """Offsets ``[start, end)`` of a node, without the parentheses and white space around it.

        ``statement`` is the top-level one that holds the node, if that is known.
        """
        for piece in self._most_likely() if statement is None else (self._piece_of[statement],):
            if piece.parsed.places is None:
                piece.parsed.places = Places(piece)
            span = piece.parsed.places.get(node)
            if span is not None:
                self._latest = piece
                return piece.start + span[0], piece.start + span[1]
        raise KeyError(type(node).__name__)  # not the node, whose name would be a whole tree

    def _most_likely(self) -> Iterator[Piece]:
        """All pieces, first the one that was asked about before: it most often holds the next node too."""
        yield self._latest
        yield from (piece for piece in dict.fromkeys(self._piece_of.values()) if piece is not self._latest)


class Places:
    """The offsets of the nodes of one piece, from its beginning."""

    def __init__(self, piece: Piece) -> None:
        self._spans: Mapping[cst.CSTNode, CodeSpan] = _Wrapper(piece.tree, unsafe_skip_copy=True).resolve(
            ByteSpanPositionProvider
        )
        self._offsets = None if piece.text.isascii() and "\f" not in piece.text else _offsets(piece)

    def get(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets of a node of this piece; None of others."""
        found = self._spans.get(node)
        if found is None:
            return None
        start, end = found.start, found.start + found.length
        if self._offsets is not None:
            last = len(self._offsets) - 1  # libcst counts a newline at the end of the text even where there is none
            start, end = self._offsets[start], self._offsets[min(end, last)]
        return start, end


class _Wrapper(MetadataWrapper):
    """libcst walks the whole tree again after a provider that needs no visitor, which takes as long as the provider."""

    def visit_batched(
        self,
        visitors: Iterable[cst.BatchableCSTVisitor],
        before_visit: Callable[[cst.CSTNode], None] | None = None,
        after_leave: Callable[[cst.CSTNode], None] | None = None,
    ) -> cst.CSTNode:
        """Walk the tree if there is anybody to walk it for."""
        asked = list(visitors)
        return super().visit_batched(asked, before_visit, after_leave) if asked else self.module


def _offsets(piece: Piece) -> list[int]:
    """For each byte of what libcst makes of the tree, and for the end, the offset of its character in the text.

    The two differ where libcst forgets a form feed, and blank lines before one.
    """
    offsets, position = [], 0
    for character in piece.tree.code:
        while piece.text[position] != character:
            position += 1
        offsets += [position] * len(character.encode("utf-8", "surrogatepass"))
        position += 1
    return [*offsets, position]


def _indent(pieces: Sequence[Piece]) -> str:
    """The indentation that most of the text uses."""
    used = Counter[str]()
    for piece in pieces:
        used[piece.tree.default_indent] += piece.text.count("\n ") + piece.text.count("\n\t")
    return used.most_common(1)[0][0]
