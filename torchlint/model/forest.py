"""The trees of several files in one set of tables: what they mean, wherever it is written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst

from torchlint.model.lookups import Lookups
from torchlint.model.semantics.definitions import Callers, Definitions
from torchlint.model.semantics.keywords import Keywords
from torchlint.model.semantics.links import Links, Resolve
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.values import Value, Values
from torchlint.model.semantics.written import Written
from torchlint.model.syntax.calls import Call, method_calls
from torchlint.model.syntax.context import Configured, PathsOf
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.main_guard import is_main_guard
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.pieces import Piece
from torchlint.model.syntax.positions import Positions, put_together
from torchlint.model.syntax.tree import Tree
from torchlint.source.lexemes import comments_in, line_starts, without_suppressions

_Fact = TypeVar("_Fact", bound="ForestFact")
_Node = TypeVar("_Node", bound=cst.CSTNode)


@dataclass(frozen=True, eq=False)
class ForestFile:
    """A file of a forest."""

    path: str  #: as the user gave it, or relative to the working directory
    place: str  #: relative to the root of the project, with slashes
    text: str
    pieces: Sequence[Piece]  #: at least one
    whole: bool = True  #: False: some pieces are left out, and nothing is reported
    in_package: bool = False  #: may be imported by code out of sight

    @cached_property
    def root(self) -> cst.Module:
        """Its pieces as one module."""
        return put_together(self.pieces)

    def contains(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is found in its text; the answer is kept."""
        if pattern not in self._answers:
            self._answers[pattern] = pattern.search(self.text) is not None
        return self._answers[pattern]

    @cached_property
    def _answers(self) -> dict[re.Pattern[str], bool]:
        return {}

    @cached_property
    def line_starts(self) -> list[int]:
        """Where each row of its text begins."""
        return line_starts(self.text)


class ForestFact:
    """Something that is known of a whole forest, whichever of its files is checked. Made once for it."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest


class Forest:
    """Parsed files, and the questions about all of them."""

    def __init__(
        self,
        files: Sequence[ForestFile],
        resolve: Resolve = lambda module, importer: None,
        configured: Configured = lambda key, reader: (),
        tree: Tree | None = None,
        paths_of: PathsOf = lambda name: (),
    ) -> None:
        """``resolve`` gives the place of a module: of a dotted name, with leading dots if relative, and an importer.

        ``configured`` gives what configuration files set a key to that the file at a place reads. ``tree`` is that of
        a forest with some of the same files, from `give_tree`. ``paths_of`` gives the paths that a name is set to.
        """
        self.configured = configured
        self.files = tuple(files)
        #: the texts of all files, a newline between two of them; offsets count through
        self.text = "\n".join(file.text for file in files)
        self.bases: list[int] = []  #: where the text of each file begins
        base = 0
        for file in files:
            self.bases.append(base)
            base += len(file.text) + 1
        self.positions = Positions(
            [
                Piece(base + piece.start, piece.parsed) if base else piece
                for base, file in zip(self.bases, files, strict=True)
                for piece in file.pieces
            ]
        )
        roots = [file.root for file in files]
        if tree is None:
            self.tree = Tree(roots)
        else:
            self.tree = tree
            tree.change_to(roots)
        self._whole = {file.place: file for file in files if file.whole}
        self.file_of_root: dict[cst.CSTNode, ForestFile] = dict(zip(self.tree.roots, files, strict=True))
        paths = {root: file.place for root, file in self.file_of_root.items()}
        self.links = Links(self.tree, paths, resolve, paths_of)
        self.names = Names(self.tree, self.links)
        self.definitions = Definitions(self.tree, self.names, self.links)
        self.values = Values(self.tree, self.names, self.definitions)
        packaged = [root for root, file in self.file_of_root.items() if file.in_package]
        self.written = Written(self.tree, self.names, self.definitions, self.values, packaged)
        self.keywords = Keywords(self.tree, self.names, self.definitions, self.values, self.written)
        self.definitions.arguments.unpacking = self.keywords
        self.lookups = Lookups(self._line_starts, self.tree, self.names, self.keywords)
        self._facts: dict[object, Any] = {}

    def fact(self, kind: Callable[[Forest], _Fact]) -> _Fact:
        """The fact of this class; made when it is first asked for."""
        known: _Fact | None = self._facts.get(kind)
        if known is None:
            known = self._facts[kind] = kind(self)
        return known

    def has(self, place: str) -> bool:
        """Whether the file at a place is part of the forest as a whole."""
        return place in self._whole

    def whole(self, place: str) -> ForestFile:
        """The file at a place that is part of the forest as a whole. Raises KeyError."""
        return self._whole[place]

    def file_index(self, offset: int) -> int:
        """The index of the file that contains the character at ``offset``."""
        return bisect_right(self.bases, offset) - 1

    def give_tree(self) -> Tree:
        """Its tree, for another forest; all else is released."""
        self.links.disconnect()
        tree, self.tree = self.tree, Tree([])
        self.release()
        return tree

    def release(self) -> None:
        """Give up all that is known: its parts refer to each other, and would wait for the garbage collector."""
        if not vars(self):
            return
        parts = (self.tree, self.links, self.names, self.definitions, self.values, self.written, self.keywords)
        for part in (*self._facts.values(), *parts, self.lookups, self):
            vars(part).clear()

    # -- text

    def span(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node`` in the text, without the parentheses and white space around it."""
        assert isinstance(node, cst.CSTNode)
        return self.positions.span(node, self.tree.top_level(node), self.tree.class_member(node))

    def extent(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node``; of a compound statement, those of its first row."""
        start, end = self.span(node)
        if isinstance(node, cst.BaseCompoundStatement):
            row = self.row_at(start)
            end = min(end, self.row_start(row) + len(self.line(row).rstrip()))
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """The source text of ``node``, without the parentheses and white space around it."""
        if isinstance(node, (cst.SimpleString, cst.Integer, cst.Float)):
            return node.value
        name = dotted_name(node)
        if name is not None:  # where it is would cost another look at the text of its piece
            return name
        start, end = self.span(node)
        return self.text[start:end] or "()"

    def full(self, node: _Node) -> _Node:
        """``node`` as libcst parses it, with white space, punctuation and comments: trees are made without them."""
        statement = self.tree.top_level(node)
        assert statement is not None
        found = self.positions.full(node, statement, self.tree.class_member(node))
        assert isinstance(found, type(node))
        return found

    def is_parenthesized(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` has parentheses around it."""
        return bool(self.full(node).lpar)

    def row(self, node: cst.CSTNode) -> int:
        """The row, from 1 and through all files, on which ``node`` begins."""
        return self.row_at(self.span(node)[0])

    def row_at(self, offset: int) -> int:
        """The row, from 1 and through all files, of the character at ``offset``."""
        return bisect_right(self.lookups.line_starts, offset)

    def row_start(self, row: int) -> int:
        """The offset of the first character of ``row`` (from 1)."""
        return self.lookups.line_starts[row - 1]

    def line(self, row: int) -> str:
        """The text of ``row`` (from 1), with its newline."""
        stop = self.lookups.line_starts[row] if row < len(self.lookups.line_starts) else len(self.text)
        return self.text[self.lookups.line_starts[row - 1] : stop]

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the row that contains ``offset``."""
        return self.lookups.line_starts[self.row_at(offset) - 1]

    def statement_rows(self, node: object) -> tuple[int, int]:
        """First and last row of the statement that contains ``node``; of a compound one, its header only."""
        assert isinstance(node, cst.CSTNode)
        if isinstance(node, cst.Decorator):
            start, end = self.span(node)
            return self.row_at(start), self.row_at(end)
        statement = self.tree.statement_of(node)
        start, end = self.span(statement)
        body = getattr(statement, "body", None)
        if isinstance(body, cst.CSTNode) and isinstance(statement, cst.BaseCompoundStatement):
            assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
            inner = body.body[0]  # Python knows where it is, and not where the block begins
            inner = inner.body[0] if isinstance(inner, cst.SimpleStatementLine) else inner
            first, last = self.row_at(start), self.row_at(self.span(inner)[0])
            if isinstance(body, cst.IndentedBlock):
                last -= 1
                while last > first and not self._header_ends(last):
                    last -= 1
            return first, max(first, last, self.row_at(self.span(node)[1]))
        return self.row_at(start), self.row_at(max(start, end - 1))

    def _header_ends(self, row: int) -> bool:
        start = self.lookups.line_starts[row - 1]
        end = self.lookups.line_starts[row] if row < len(self.lookups.line_starts) else len(self.text)
        line = self.text[start:end].split("#")[0].rstrip()
        return line.endswith(":")

    def comment_on(self, node: cst.CSTNode) -> bool:
        """Whether a comment that is not a suppression is on one of the rows of ``node``."""
        start, end = self.span(node)
        first, last = self.row_at(start), self.row_at(max(start, end - 1))
        stop = self.lookups.line_starts[last] if last < len(self.lookups.line_starts) else len(self.text)
        return bool(comments_in(without_suppressions(self.text[self.lookups.line_starts[first - 1] : stop])))

    def _line_starts(self) -> list[int]:
        return [base + start for base, file in zip(self.bases, self.files, strict=True) for start in file.line_starts]

    # -- meaning

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of anything with one of these canonical dotted names, in order."""
        return self.calls_in(None, *names)

    def calls_in(self, outer: cst.CSTNode | None, *names: str) -> Iterator[Call]:
        """Those inside ``outer``, if it is given."""
        found = [call for name in dict.fromkeys(names) for call in self.lookups.calls_of(name, outer)]
        yield from found if len(names) == 1 else sorted(found, key=lambda call: self.tree.index(call.node))

    def constructor_calls(self, *names: str) -> Iterator[Call]:
        """The calls of a class with one of these canonical names, or of a class of the file derived from one."""
        derived = [item for item in self.tree.classes if not set(names).isdisjoint(self.definitions.base_names(item))]
        if not derived:
            yield from Forest.calls(self, *names)
            return
        for node in self.tree.calls:
            name = self.names.resolve(node.func)
            if name is not None and name in names:
                yield self.call(node, name)
            else:
                made = [item for item in self.definitions.called(node, self.values) if item in derived]
                if made:
                    yield self.call(node, made[0].name.value)

    def call(self, node: cst.Call, name: str) -> Call:
        """A call of a function with this canonical dotted name."""
        return Call(node, name, self.keywords)

    def methods(self, *names: str) -> Iterator[Call]:
        """The calls ``<anything>.name(...)`` with one of these method names, in order."""
        return method_calls(self.tree.calls_named(*names), self.keywords)

    def decorators(self, *names: str) -> Iterator[tuple[cst.Decorator, str]]:
        """The decorators ``@name`` (not called) with one of these canonical dotted names, in order."""
        definitions: list[cst.FunctionDef | cst.ClassDef] = [*self.tree.functions, *self.tree.classes]
        for definition in definitions:
            for decorator in definition.decorators:
                name = self.names.resolve(decorator.decorator)
                if name is not None and name in names:
                    yield decorator, name

    def name_of(self, node: cst.CSTNode | None) -> str | None:
        """The canonical dotted name that ``node`` refers to, if it comes from an import or is a builtin."""
        return self.names.resolve(node)

    def value(self, node: cst.CSTNode | None) -> Value:
        """The abstract value of the expression ``node``."""
        return self.values.of(node)

    def callee(self, node: cst.CSTNode) -> cst.CSTNode:
        """What ``node`` calls; ``node`` itself if it is not a call."""
        return node.func if isinstance(node, cst.Call) else node

    def callers(self, function: cst.FunctionDef) -> Callers:
        """Where ``function`` is called."""
        return self.definitions.callers(function, self.values)

    def passed_by_all(self, param: cst.Param, at_most: int | None = None) -> list[cst.BaseExpression | None]:
        """What each call of the function of a parameter passes for it: None if nothing, or if it is unpacked.

        Empty for a lambda, without calls, and for more calls than ``at_most``.
        """
        function = owner_of(self.tree, param)
        calls = self.callers(function).calls if function is not None else ()
        if function is None or (at_most is not None and len(calls) > at_most):
            return []
        return [self.definitions.argument_of(call, function, param) for call in calls]

    @property
    def imported_names(self) -> frozenset[str]:
        """Dotted names of everything that the files import, at any place."""
        return frozenset().union(*self.lookups.imported_by.values())

    def imported_by(self, root: cst.CSTNode) -> frozenset[str]:
        """Dotted names of everything that one file, given by its root, imports at any place."""
        return self.lookups.imported_by[root]

    def used_imports(self, root: cst.CSTNode) -> frozenset[str]:
        """Dotted names of everything that one file, given by its root, imports at any place and names again."""
        return frozenset(binding.imported for binding in self.lookups.imports[root] if self.names.uses(binding))

    def imports(self, root: str) -> bool:
        """Whether a file imports ``root`` or something of it."""
        return any(name == root or name.startswith(root + ".") for name in self.imported_names)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The ``def`` around ``node``, None at module level."""
        found = self.tree.function_of(node)
        while isinstance(found, cst.Lambda):
            found = self.tree.function_of(found)
        return found

    def function_or_file(self, node: cst.CSTNode) -> cst.CSTNode:
        """The ``def`` around ``node``, or else the root of its file."""
        return self.function_of(node) or self.tree.root_of(node)

    def functions_around(self, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
        """The functions around ``node``, the innermost first."""
        found = self.function_of(node)
        while found is not None:
            yield found
            found = self.function_of(found)

    def is_in_function_named(self, node: cst.CSTNode, pattern: re.Pattern[str]) -> bool:
        """Whether ``pattern`` finds something in the name of a function around ``node``."""
        return any(pattern.search(function.name.value) for function in self.functions_around(node))

    def words_of(self, root: cst.CSTNode) -> frozenset[str]:
        """The names and attributes in one file, given by its root."""
        assert isinstance(root, cst.Module)
        return self.tree.words_of(root)

    # -- scripts

    def is_guarded(self, root: cst.CSTNode) -> bool:
        """Whether a file, given by its root, has an ``if __name__ == "__main__":`` at its top level."""
        assert isinstance(root, cst.Module)
        return any(isinstance(item, cst.If) and is_main_guard(item.test) for item in root.body)

    def under_main_guard(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs only when the file is run as a script (or inside a function)."""
        return self.tree.function_of(node) is not None or self.is_in_guard(node)

    def is_in_guard(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in an ``if __name__ == "__main__":``, maybe in a function that is defined there."""
        guards = (item for item in self.tree.ancestors(node) if isinstance(item, cst.If) and is_main_guard(item.test))
        return any(self.tree.within(node, item.body) for item in guards)
