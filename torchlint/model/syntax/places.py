"""The offsets of the nodes of one piece: by Python's parser where that is enough, else by libcst's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchlint.model.syntax.conversion import Member, converted, converted_members
from torchlint.model.syntax.nodes import pairs
from torchlint.source.parsing import ParseError, parse_texts
from torchlint.source.stack import with_large_stack


class ConvertedPlaces:
    """The offsets of the nodes of one piece, from its beginning, whose tree was made from Python's own.

    Python knows them for most nodes. For the others libcst parses the piece.
    """

    def __init__(self, tree: cst.Module, text: str) -> None:
        self._tree = tree
        self._text = text
        self._spans: dict[cst.CSTNode, tuple[int, int]] = {}
        self._is_complete = False
        self._member_twins: dict[cst.CSTNode, Mapping[cst.CSTNode, cst.CSTNode]] = {}

    def get(self, node: cst.CSTNode, member: cst.CSTNode | None = None) -> tuple[int, int] | None:
        """The offsets of a node of this piece; None of others.

        ``member`` is the function or class, of a class at the top level, that contains the node, if there is one.
        """
        if node not in self._spans and not self._is_complete and not self._is_added(member):
            self._add_all()
        known = self._spans.get(node)
        if known is None and node in self._twins:
            known = self._exact.get(self._twins[node])
        return known

    def _is_added(self, member: cst.CSTNode | None) -> bool:
        """Add the offsets of one function or class of a class; False if that is not in this piece, or is too deep."""
        try:
            if member is None or member not in self._members:
                return False
            if member not in self._spans:
                self._add(member, *self._members[member].convert())
        except RecursionError:
            return False
        return True

    def _add_all(self) -> None:
        """Add the offsets of all nodes."""
        self._is_complete = True
        spans: dict[int, tuple[int, int]] = {}
        try:
            again = converted(self._text, spans)
        except RecursionError:
            again = with_large_stack(lambda: converted(self._text, spans))
        self._add(self._tree, again, spans)

    def _add(self, mine: cst.CSTNode, again: cst.CSTNode, spans: Mapping[int, tuple[int, int]]) -> None:
        self._spans |= {node: spans[id(twin)] for node, twin in pairs(mine, again) if id(twin) in spans}

    @cached_property
    def _members(self) -> dict[cst.CSTNode, Member]:
        """The functions and classes of the classes in this piece."""
        mine = _members_of(self._tree)
        return dict(zip(mine, converted_members(self._text), strict=True)) if mine else {}

    def member_at(self, offset: int) -> cst.CSTNode | None:
        """The function or class, of a class at the top level, whose rows contain a character."""
        inside = (node for node, item in self._members.items() if item.start <= offset < item.start + len(item.code))
        return next(inside, None)

    def full(self, node: cst.CSTNode, member: cst.CSTNode | None = None) -> cst.CSTNode | None:
        """A node of this piece as libcst parses it, with white space, punctuation and comments; None of others.

        ``member`` is as for `get`.
        """
        if member is not None and member is not node and member in self._members:  # its own comments are outside of it
            if member not in self._member_twins:
                self._member_twins[member] = self._twins_in(member)
            return self._member_twins[member].get(node) or self._twins.get(node)
        return self._twins.get(node)

    def _twins_in(self, member: cst.CSTNode) -> Mapping[cst.CSTNode, cst.CSTNode]:
        """The nodes of a member with what libcst parses of it alone; none if it cannot, or sees another tree."""
        try:
            (definition,) = parse_texts([f"class _:\n{self._members[member].code}"])[0].body
            assert isinstance(definition, cst.ClassDef)
            return dict(pairs(member, definition.body.body[0]))
        except (ParseError, ValueError):
            return {}

    @cached_property
    def _parsed(self) -> cst.Module:
        return parse_texts([self._text])[0]

    @cached_property
    def _twins(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return dict(pairs(self._tree, self._parsed))

    @cached_property
    def _exact(self) -> Places:
        return Places(self._parsed, self._text)


def _members_of(tree: cst.Module) -> list[cst.CSTNode]:
    """The functions and classes directly in the classes at the top level, in order."""
    return [
        inner
        for statement in tree.body
        if isinstance(statement, cst.ClassDef)
        for inner in statement.body.body
        if isinstance(inner, (cst.FunctionDef, cst.ClassDef))
    ]


class Places:
    """The offsets of the nodes of one piece, from its beginning, which libcst parsed."""

    def __init__(self, tree: cst.Module, text: str) -> None:
        self._tree = tree
        self._spans: Mapping[cst.CSTNode, CodeSpan] = _Wrapper(tree, unsafe_skip_copy=True).resolve(
            ByteSpanPositionProvider
        )
        # libcst drops the blanks of `except A :`, and does other things with form feeds.
        exact = text.isascii() and "\f" not in text and self._spans[tree].length == len(text)
        self._offsets = None if exact else _offsets(tree, text)

    def get(self, node: cst.CSTNode, member: cst.CSTNode | None = None) -> tuple[int, int] | None:
        """The offsets of a node of this piece; None of others."""
        found = self._spans.get(node)
        if found is None:
            return None
        start, end = found.start, found.start + found.length
        if self._offsets is not None:
            last = len(self._offsets) - 1  # libcst counts a newline at the end of the text even where there is none
            start, end = self._offsets[start], self._offsets[min(end, last)]
        return start, end

    def member_at(self, offset: int) -> cst.CSTNode | None:
        """The function or class, of a class at the top level, that contains a character."""
        spans = ((node, self.get(node) or (0, 0)) for node in _members_of(self._tree))
        return next((node for node, (start, end) in spans if start <= offset < end), None)

    def full(self, node: cst.CSTNode, member: cst.CSTNode | None = None) -> cst.CSTNode | None:
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
