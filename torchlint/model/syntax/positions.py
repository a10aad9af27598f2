"""Where nodes are in the text; computed for the pieces for which it is asked."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.syntax.pieces import Piece


class Positions:
    """The offsets of the nodes of some pieces, which may be those of several files."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._piece_of: dict[cst.CSTNode, Piece] = {}
        self._starts = [piece.start for piece in pieces]
        self._pieces = pieces
        self._latest = pieces[0]
        for piece in pieces:
            self._piece_of |= dict.fromkeys(piece.tree.body, piece)

    def start_of(self, statement: cst.CSTNode) -> int:
        """Where the piece of a top-level statement begins."""
        return self._piece_of[statement].start

    def piece_start(self, offset: int) -> int:
        """Where the piece that contains an offset begins."""
        return self._starts[bisect_right(self._starts, offset) - 1]

    def definitions_at(self, offset: int) -> Iterator[cst.FunctionDef | cst.ClassDef]:
        """The function or class of the top level that contains a character, then the one directly in a class."""
        piece = self._pieces[bisect_right(self._starts, offset) - 1]
        places, inside = piece.parsed.places, offset - piece.start
        for statement in piece.tree.body:
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                start, end = (places.get(statement) or (0, 0)) if len(piece.tree.body) > 1 else (0, len(piece.text))
                if start <= inside < end:
                    yield statement
                    member = places.member_at(inside) if isinstance(statement, cst.ClassDef) else None
                    if isinstance(member, (cst.FunctionDef, cst.ClassDef)):
                        yield member

    def span(
        self, node: cst.CSTNode, statement: cst.CSTNode | None, member: cst.CSTNode | None = None
    ) -> tuple[int, int]:
        """Offsets ``[start, end)`` of a node, without the parentheses and white space around it.

        ``statement`` is the top-level one that contains the node, and ``member`` the function or class of a class, if
        they are known.
        """
        for piece in self._most_likely() if statement is None else (self._piece_of[statement],):
            span = piece.parsed.places.get(node, member)
            if span is not None:
                self._latest = piece
                return piece.start + span[0], piece.start + span[1]
        raise KeyError(type(node).__name__)  # not the node, whose name would be a whole tree

    def full(self, node: cst.CSTNode, statement: cst.CSTNode, member: cst.CSTNode | None) -> cst.CSTNode:
        """A node as libcst parses it, with white space, punctuation and comments.

        ``statement`` and ``member`` are as for `span`.
        """
        found = self._piece_of[statement].parsed.places.full(node, member)
        if found is None:
            raise KeyError(type(node).__name__)
        return found

    def _most_likely(self) -> Iterator[Piece]:
        """All pieces, first the one that was asked about before: it most often contains the next node too."""
        yield self._latest
        yield from (piece for piece in dict.fromkeys(self._piece_of.values()) if piece is not self._latest)


def put_together(pieces: Sequence[Piece]) -> cst.Module:
    """The pieces of a file as one module."""
    return cst.Module(
        body=[statement for piece in pieces for statement in piece.tree.body],
        default_indent=_indent(pieces),
        default_newline=pieces[0].tree.default_newline,
    )


def _indent(pieces: Sequence[Piece]) -> str:
    """The indentation that most of the text uses."""
    used = Counter[str]()
    for piece in pieces:
        used[piece.tree.default_indent] += piece.text.count("\n ") + piece.text.count("\n\t")
    return used.most_common(1)[0][0]
