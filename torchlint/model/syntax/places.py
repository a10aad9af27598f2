"""The offsets of the nodes of one piece: by Python's parser where that is enough, else by libcst's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchlint.model.syntax.conversion import converted
from torchlint.model.syntax.nodes import pairs
from torchlint.source.parsing import parse_texts
from torchlint.source.stack import with_large_stack


class ConvertedPlaces:
    """The offsets of the nodes of one piece, from its beginning, whose tree was made from Python's own.

    Python knows them for most nodes. For the others libcst parses the piece.
    """

    def __init__(self, tree: cst.Module, text: str) -> None:
        self._tree = tree
        self._text = text
        spans: dict[int, tuple[int, int]] = {}
        try:
            again = converted(text, spans)
        except RecursionError:
            again = with_large_stack(lambda: converted(text, spans))
        self._spans = {node: spans[id(twin)] for node, twin in pairs(tree, again) if id(twin) in spans}

    def get(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets of a node of this piece; None of others."""
        known = self._spans.get(node)
        if known is None and node in self._twins:
            known = self._exact.get(self._twins[node])
        return known

    def full(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """A node of this piece as libcst parses it, with white space, punctuation and comments; None of others."""
        return self._twins.get(node)

    @cached_property
    def _parsed(self) -> cst.Module:
        return parse_texts([self._text])[0]

    @cached_property
    def _twins(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return dict(pairs(self._tree, self._parsed))

    @cached_property
    def _exact(self) -> Places:
        return Places(self._parsed, self._text)


class Places:
    """The offsets of the nodes of one piece, from its beginning, which libcst parsed."""

    def __init__(self, tree: cst.Module, text: str) -> None:
        self._spans: Mapping[cst.CSTNode, CodeSpan] = _Wrapper(tree, unsafe_skip_copy=True).resolve(
            ByteSpanPositionProvider
        )
        # libcst drops the blanks of `except A :`, and does other things with form feeds.
        exact = text.isascii() and "\f" not in text and self._spans[tree].length == len(text)
        self._offsets = None if exact else _offsets(tree, text)

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

    def full(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """A node of this piece; None of others."""
        return node if node in self._spans else None


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


def _offsets(tree: cst.Module, text: str) -> list[int]:
    """For each byte of what libcst makes of the tree, and for the end, the offset of its character in the text.

    The two differ before the colon of ``except A :``, where libcst forgets blanks and joined rows. And at form feeds:
    libcst forgets some, and blank lines before them, and repeats one that is in the indentation of a block on all its
    lines.
    """
    offsets, position = [], 0
    for character in tree.code:
        here = text[position : position + 1]
        added = here != character and character in " \t\f" and (character == "\f" or not here.isspace())
        while not added and position < len(text) and text[position] != character:
            position += 1
        offsets += [position] * len(character.encode("utf-8", "surrogatepass"))
        position = min(position + (not added), len(text))
    return [*offsets, position]
