"""The model of one file: what a rule may ask. Built from one traversal; every answer is worked out when asked for."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

from torchlint.model.semantics.definitions import Callers, Definitions
from torchlint.model.semantics.links import Links
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.values import Value, Values
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.context import NO_CONTEXT, Context
from torchlint.model.syntax.pieces import Piece, parse_pieces
from torchlint.model.syntax.positions import Positions
from torchlint.model.syntax.tree import Binding, Tree
from torchlint.source.lexemes import NEWLINE, without_suppressions
from torchlint.source.parsing import ParseError

if TYPE_CHECKING:
    from torchlint.model.option import Option


_Fact = TypeVar("_Fact")


class Module:
    """One parsed file and the questions that rules put to it."""

    def __init__(
        self,
        text: str,
        pieces: Sequence[Piece],
        path: str = "",
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
        context: Context = NO_CONTEXT,
        project_path: str | None = None,
        in_package: bool = False,
    ) -> None:
        files = [other for other in context.files if other.pieces]
        self.own_text = text
        #: the text of the file, and behind it those of its context: offsets beyond `own_text` are in other files
        self.text = "\n".join((text, *(other.text for other in files)))
        self.path = path
        self.project_path = path if project_path is None else project_path
        self.in_package = in_package
        self.target_torch = target_torch
        self._options = options or {}
        self._positions = Positions(pieces)
        self.root = self._positions.root
        base, others = len(text) + 1, []
        self._bases: list[int] = [0]  #: where the text of each file begins
        for other in files:
            self._bases.append(base)
            others.append(self._positions.add([replace(piece, start=base + piece.start) for piece in other.pieces]))
            base += len(other.text) + 1
        self.tree = Tree(self.root, others)
        self._paths = [path, *(os.path.normpath(os.path.join(context.root, other.path)) for other in files)]
        paths: dict[cst.CSTNode, str] = dict(
            zip(self.tree.roots, (context.path, *(other.path for other in files)), strict=True)
        )
        self.links = Links(self.tree, paths, context.resolve)
        self.names = Names(self.tree, self.links)
        self.definitions = Definitions(self.tree, self.names, self.links)
        self.values = Values(self.tree, self.names, self.definitions)
        self._facts: dict[object, Any] = {}

    def fact(self, kind: Callable[[Module], _Fact]) -> _Fact:
        """The fact of this class about the forest; made when it is first asked for."""
        known: _Fact | None = self._facts.get(kind)
        if known is None:
            known = self._facts[kind] = kind(self)
        return known

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        path: str = "",
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
        context: Context = NO_CONTEXT,
        project_path: str | None = None,
        in_package: bool = False,
    ) -> Module:
        """Parse ``text`` and build its model. Raises ParseError.

        ``project_path`` is the path within the project; a file ``in_package`` may be imported by code out of sight.
        """
        try:
            return cls(text, parse_pieces(text), path, options, target_torch, context, project_path, in_package)
        except RecursionError:
            raise ParseError("nested too deeply to be analysed") from None

    def release(self) -> None:
        """Give up all that is known: its parts refer to each other, and would wait for the garbage collector."""
        vars(self).clear()

    # -- text

    def span(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node`` in the text, without the parentheses and white space around it."""
        assert isinstance(node, cst.CSTNode)
        return self._positions.span(node, self.tree.top_level(node))

    def extent(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node``; of a compound statement, those of its first row."""
        start, end = self.span(node)
        if isinstance(node, cst.BaseCompoundStatement):
            row = self.row_at(start)
            end = min(end, self.row_start(row) + len(self.line(row).rstrip()))
        return start, end

    def place(self, node: object) -> tuple[int, int, str]:
        """The `extent` of ``node`` in its own file, and the path of that file, empty for the file that is checked."""
        start, end = self.extent(node)
        index = bisect_right(self._bases, start) - 1
        base = self._bases[index]
        return start - base, end - base, self._paths[index] if index else ""

    def code(self, node: cst.CSTNode) -> str:
        """The source text of ``node``."""
        start, end = self.span(node)
        return self.text[start:end]

    def row(self, node: cst.CSTNode) -> int:
        """The row, from 1, on which ``node`` begins in its file."""
        start = self.span(node)[0]
        return self.row_at(start) - self.row_at(self._bases[bisect_right(self._bases, start) - 1]) + 1

    def is_own(self, start: int) -> bool:
        """Whether an offset is in the file that is checked."""
        return start <= len(self.own_text)

    def row_at(self, offset: int) -> int:
        """The row, from 1, of the character at ``offset``."""
        return bisect_right(self._line_starts, offset)

    def row_start(self, row: int) -> int:
        """The offset of the first character of ``row`` (from 1)."""
        return self._line_starts[row - 1]

    def line(self, row: int) -> str:
        """The text of ``row`` (from 1), with its newline."""
        stop = self._line_starts[row] if row < len(self._line_starts) else len(self.text)
        return self.text[self._line_starts[row - 1] : stop]

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the row that holds ``offset``."""
        return self._line_starts[self.row_at(offset) - 1]

    def statement_rows(self, node: object) -> tuple[int, int]:
        """First and last row of the statement that holds ``node``; of a compound one, its header only."""
        assert isinstance(node, cst.CSTNode)
        if isinstance(node, cst.Decorator):
            start, end = self.span(node)
            return self.row_at(start), self.row_at(end)
        statement = self.tree.statement_of(node)
        start, end = self.span(statement)
        body = getattr(statement, "body", None)
        if isinstance(body, cst.CSTNode) and isinstance(statement, cst.BaseCompoundStatement):
            end = self.span(body)[0]
            last = self.row_at(max(start, end - 1))
            if isinstance(body, cst.IndentedBlock) and last > self.row_at(start):
                while last > self.row_at(start) and not self._header_ends(last):
                    last -= 1
            first = self.row_at(start)
            return first, max(first, last, self.row_at(self.span(node)[1]))
        return self.row_at(start), self.row_at(max(start, end - 1))

    def _header_ends(self, row: int) -> bool:
        start = self._line_starts[row - 1]
        end = self._line_starts[row] if row < len(self._line_starts) else len(self.text)
        line = self.text[start:end].split("#")[0].rstrip()
        return line.endswith(":")

    def comment_on(self, node: cst.CSTNode) -> bool:
        """Whether a comment that is no suppression stands on one of the rows of ``node``."""
        start, end = self.span(node)
        first, last = self.row_at(start), self.row_at(max(start, end - 1))
        stop = self._line_starts[last] if last < len(self._line_starts) else len(self.text)
        return "#" in without_suppressions(self.text[self._line_starts[first - 1] : stop])

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(NEWLINE, self.text))]

    # -- settings

    def option(self, rule: str, name: str) -> Option | None:
        """The setting ``name`` of ``[tool.torchlint.rules.<rule>]``."""
        return self._options.get(rule, {}).get(name)

    # -- calls and values

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of anything with one of these canonical dotted names in the file and its context, in order."""
        found = [call for name in dict.fromkeys(names) for call in self._calls.get(name, ())]
        yield from found if len(names) == 1 else sorted(found, key=lambda call: self.tree.index(call.node))

    @cached_property
    def _calls(self) -> Mapping[str, list[Call]]:
        """The calls of each canonical name, in order."""
        found: dict[str, list[Call]] = {}
        for node in self.tree.calls:
            name = self.names.resolve(node.func)
            if name is not None:
                found.setdefault(name, []).append(Call(node, name))
        return found

    def own_calls(self, *names: str) -> Iterator[Call]:
        """The calls of these names in the file that is checked: the places where a rule may report something."""
        return (call for call in self.calls(*names) if self.tree.is_own(call.node))

    def makers(self, *names: str) -> Iterator[Call]:
        """The calls of a class with one of these canonical names, or of a class of the file derived from one."""
        derived = [item for item in self.tree.classes if not set(names).isdisjoint(self.definitions.base_names(item))]
        for node in self.tree.calls:
            name = self.names.resolve(node.func)
            if name is not None and name in names:
                yield Call(node, name)
            elif derived:
                made = [item for item in self.definitions.called(node, self.values) if item in derived]
                if made:
                    yield Call(node, made[0].name.value)

    def methods(self, *names: str) -> Iterator[cst.Call]:
        """The calls ``<anything>.name(...)`` with one of these method names, in order."""
        found = [call for name in dict.fromkeys(names) for call in self._methods.get(name, ())]
        yield from found if len(names) == 1 else sorted(found, key=self.tree.index)

    @cached_property
    def _methods(self) -> Mapping[str, list[cst.Call]]:
        """The calls of each method name, in order."""
        found: dict[str, list[cst.Call]] = {}
        for node in self.tree.calls:
            if isinstance(node.func, cst.Attribute):
                found.setdefault(node.func.attr.value, []).append(node)
        return found

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
        """What the expression ``node`` is worth."""
        return self.values.of(node)

    def callee(self, node: cst.CSTNode) -> cst.CSTNode:
        """What ``node`` calls; ``node`` itself if it is no call."""
        return node.func if isinstance(node, cst.Call) else node

    def callers(self, function: cst.FunctionDef) -> Callers:
        """Where ``function`` is called in the file."""
        return self.definitions.callers(function, self.values)

    def is_exported(self, binding: Binding) -> bool:
        """Whether other files are meant to use the name: listed in ``__all__``, or bound in an ``__init__.py``."""
        if self.path.replace("\\", "/").endswith("/__init__.py") or self.path == "__init__.py":
            return True
        return binding.name in self._listed_names

    @cached_property
    def _listed_names(self) -> frozenset[object]:
        """What is listed in ``__all__``."""
        return frozenset(
            node.evaluated_value
            for entry in self.tree.module_scope.bindings.get("__all__", [])
            if entry.value is not None
            for node in self.tree.nodes_in(entry.value)
            if isinstance(node, cst.SimpleString)
        )

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """Dotted names of everything the file and its context import, at any place."""
        return frozenset(name for root in self.tree.roots for name in self._imported_by(root))

    @cached_property
    def own_imported_names(self) -> frozenset[str]:
        """Dotted names of everything that the file itself imports, at any place."""
        return self._imported_by(self.root)

    def _imported_by(self, root: cst.CSTNode) -> frozenset[str]:
        """Dotted names of everything that one file imports."""
        found: set[str] = set()
        for node, scope in self.tree.scopes.items():
            if self.tree.within(node, root):
                for bindings in scope.bindings.values():
                    found.update(binding.imported for binding in bindings if binding.kind == "import")
        return frozenset(found)

    def imports(self, root: str) -> bool:
        """Whether the file imports ``root`` or something of it."""
        return any(name == root or name.startswith(root + ".") for name in self.imported_names)

    def itself_imports(self, root: str) -> bool:
        """Whether the file itself, not its context, imports ``root`` or something of it."""
        return any(name == root or name.startswith(root + ".") for name in self.own_imported_names)

    # -- places

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The ``def`` around ``node``, None at module level."""
        found = self.tree.function_of(node)
        while isinstance(found, cst.Lambda):
            found = self.tree.function_of(found)
        return found

    @cached_property
    def has_main_guard(self) -> bool:
        """Whether the file has an ``if __name__ == "__main__":``."""
        return any(
            isinstance(node, cst.If)
            and isinstance(node.test, cst.Comparison)
            and isinstance(node.test.left, cst.Name)
            and node.test.left.value == "__name__"
            for node in self.root.body
        )

    def under_main_guard(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs only when the file is run as a script (or inside a function)."""
        if self.tree.function_of(node) is not None:
            return True
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.If) and isinstance(above.test, cst.Comparison):
                if isinstance(above.test.left, cst.Name) and above.test.left.value == "__name__":
                    return True
        return False
