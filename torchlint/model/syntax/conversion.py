"""Python's own syntax tree of a text -> the tree that libcst would make of it, without white space and punctuation.

`libcst.parse_module` takes about ten times as long as `ast.parse`, and nearly all of what it adds is never asked for:
the white space around each token. The trees made here consist of libcst's node classes. They have the fields that carry
meaning; a field for white space, parentheses, commas or comments is unset, and reading it raises AttributeError.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import libcst as cst

from torchlint.model.syntax import nodes
from torchlint.model.syntax.ast_places import ROW_END
from torchlint.model.syntax.expressions import Expressions, UnconvertibleError
from torchlint.source.rows import first_row


def converted(text: str, spans: dict[int, tuple[int, int]] | None = None) -> cst.Module:
    """The tree of a text that has no syntax error.

    With ``spans``, the offsets of each node that Python's tree has too are stored in it, by the `id` of the node.
    Raises UnconvertibleError, SyntaxError, ValueError and RecursionError.
    """
    tree = ast.parse(text)
    return _Conversion(text, spans).module(tree.body, 0, len(text))


def converted_pieces(text: str, tree: ast.Module, spans: Sequence[tuple[int, int]]) -> list[cst.Module | None]:
    """The trees of parts of a text: of the top-level statements within offsets; None if libcst has to parse one.

    ``tree`` is Python's tree of the text. Raises RecursionError.
    """
    conversion = _Conversion(text, None)
    starts = [conversion.first_offset(statement) for statement in tree.body]
    found: list[cst.Module | None] = []
    for start, end in spans:
        body = tree.body[bisect_left(starts, start) : bisect_left(starts, end)]
        try:
            found.append(conversion.module(body, start, end))
        except UnconvertibleError:
            found.append(None)
    return found


@dataclass(frozen=True)
class Member:
    """A function or class directly in a class at the top level."""

    start: int  #: offset of its first row in the text
    code: str  #: its rows, with decorators
    convert: Callable[[], tuple[cst.CSTNode, dict[int, tuple[int, int]]]]  #: makes its tree and the offsets in it


def converted_members(text: str) -> list[Member]:
    """The functions and classes directly in the classes at the top level, in order."""
    tree = ast.parse(text)
    conversion = _Conversion(text, {})
    return [
        Member(conversion.first_offset(inner), conversion.rows_of(inner), partial(conversion.member, inner))
        for statement in tree.body
        if isinstance(statement, ast.ClassDef)
        for inner in statement.body
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]


class _Conversion(Expressions):
    """The conversion of one text."""

    def first_offset(self, statement: ast.stmt) -> int:
        """Where the row of a statement begins, or that of its first decorator."""
        return self._starts[first_row(statement, self._text, self._starts) - 1]

    def rows_of(self, statement: ast.stmt) -> str:
        """The rows of a statement, with its decorators."""
        end = statement.end_lineno or statement.lineno
        return self._text[self.first_offset(statement) : self._starts[end] if end < len(self._starts) else None]

    def module(self, statements: Sequence[ast.stmt], start: int, end: int) -> cst.Module:
        """The tree of a part of the text that consists of these statements."""
        self._indent = None
        body = self._statements(statements)
        newline = ROW_END.search(self._text, start, end)
        return cst.Module(
            body=body,
            default_indent="    " if self._indent is None else self._indent,
            default_newline=newline.group() if newline else "\n",
        )

    def member(self, statement: ast.stmt) -> tuple[cst.CSTNode, dict[int, tuple[int, int]]]:
        """The tree of one compound statement, and the offsets in it."""
        spans = self._spans = {}
        (node,) = self._statements([statement])
        return node, spans

    def _statements(self, statements: Sequence[ast.stmt]) -> tuple[Any, ...]:
        """Statements of one block: the small ones of a row are one line."""
        found: list[cst.CSTNode] = []
        row: list[cst.CSTNode] = []
        first = previous = None  # the first and the latest small statement of the row
        handlers = _STATEMENTS
        for statement in statements:
            handler = handlers.get(type(statement))
            if handler is None:
                raise UnconvertibleError(type(statement).__name__)
            node = handler(self, statement)
            if self._spans is not None:
                self._note(node, statement)
            is_compound = type(statement) in _COMPOUND
            if previous is not None and (is_compound or not self._same_row(previous, statement)):
                found.append(self._line(row, first, previous))
                row = []
            if is_compound:
                found.append(node)
                previous = None
            else:
                row.append(node)
                first = statement if len(row) == 1 else first
                previous = statement
        if row:
            found.append(self._line(row, first, previous))
        return tuple(found)

    def _line(self, row: list[cst.CSTNode], first: ast.stmt | None, last: ast.stmt | None) -> cst.CSTNode:
        """A row of small statements."""
        line = nodes.new_line(tuple(row))
        if self._spans is not None:
            self._spans[id(line)] = (self._start(first), self._end(last))
        return line

    def _same_row(self, before: ast.stmt, statement: ast.stmt) -> bool:
        """Whether two small statements are parted by a semicolon only."""
        if statement.lineno == before.end_lineno:
            return True
        between = self._text[self._end(before) : self._start(statement)]
        return "\\" in between and not ROW_END.search(re.sub(r"\\(?:\r\n|\r|\n)", "", between))

    def _is_continued(self, row: int) -> bool:
        """Whether a row belongs to the one before it, which ends with a backslash."""
        if row == 1:
            return False
        return self._text[self._starts[row - 2] : self._starts[row - 1]].rstrip("\r\n").endswith("\\")

    def _body(self, statements: Sequence[ast.stmt]) -> cst.CSTNode:
        """The body of a compound statement."""
        first = statements[0]
        if type(first) not in _COMPOUND:
            start = self._start(first)
            begin = self._starts[first.lineno - 1]
            indent = self._text[begin:start]
            if indent.strip() or self._is_continued(first.lineno):
                inner = self._statements(statements)
                if len(inner) != 1:
                    raise UnconvertibleError("body")
                assert isinstance(inner[0], cst.SimpleStatementLine)
                if self._spans is not None:
                    del self._spans[id(inner[0])]  # a node that is made later may have this `id`
                return nodes.new_suite(inner[0].body)
        else:
            indent = None
        if self._indent is None:
            if indent is None:
                row = first_row(first, self._text, self._starts)
                found = re.compile(r"[ \t\f]*").match(self._text, self._starts[row - 1])
                indent = found.group() if found else ""
            self._indent = indent
        block = nodes.new_block(self._statements(statements))
        if self._spans is not None:
            self._spans[id(block)] = (self._start(first), self._end(statements[-1]))
        return block

    def _on_expr(self, node: ast.Expr) -> cst.CSTNode:
        return nodes.new_expr(self._expression(node.value))

    def _on_assign(self, node: ast.Assign) -> cst.CSTNode:
        targets = [nodes.new_assign_target(self._expression(target)) for target in node.targets]
        return nodes.new_assign(tuple(targets), self._expression(node.value))

    def _on_aug_assign(self, node: ast.AugAssign) -> cst.CSTNode:
        return nodes.new_aug_assign(
            self._expression(node.target), nodes.ASSIGNMENTS[type(node.op)], self._expression(node.value)
        )

    def _on_ann_assign(self, node: ast.AnnAssign) -> cst.CSTNode:
        target = self._expression(node.target)
        return nodes.new_ann_assign(
            target, nodes.new_annotation(self._expression(node.annotation)), self._or_none(node.value)
        )

    def _on_return(self, node: ast.Return) -> cst.CSTNode:
        return nodes.new_return(self._or_none(node.value))

    def _on_raise(self, node: ast.Raise) -> cst.CSTNode:
        cause = None if node.cause is None else nodes.new_from(self._expression(node.cause))
        return nodes.new_raise(self._or_none(node.exc), cause)

    def _on_assert(self, node: ast.Assert) -> cst.CSTNode:
        return nodes.new_assert(self._expression(node.test), self._or_none(node.msg))

    def _on_del(self, node: ast.Delete) -> cst.CSTNode:
        if len(node.targets) == 1:
            if self._text.startswith(",", self._skip(self._end(node.targets[0]))):
                raise UnconvertibleError("del x,")
            return nodes.new_del(self._expression(node.targets[0]))
        return nodes.new_del(nodes.new_tuple(self._elements(node.targets)))

    def _on_import(self, node: ast.Import) -> cst.CSTNode:
        return nodes.new_import(tuple([self._alias(alias) for alias in node.names]))

    def _on_import_from(self, node: ast.ImportFrom) -> cst.CSTNode:
        module = None if node.module is None else self._dotted(node.module)
        if node.names[0].name == "*":
            names: object = nodes.IMPORT_STAR
        else:
            names = tuple([self._alias(alias) for alias in node.names])
        return nodes.new_import_from(module, names, (nodes.DOT,) * node.level)

    def _alias(self, node: ast.alias) -> cst.CSTNode:
        name = self._dotted(node.name)
        return nodes.new_import_alias(
            name, None if node.asname is None else nodes.new_as_name(self._identifier(node.asname))
        )

    def _on_global(self, node: ast.Global) -> cst.CSTNode:
        return nodes.new_global(tuple([nodes.new_name_item(self._identifier(name)) for name in node.names]))

    def _on_nonlocal(self, node: ast.Nonlocal) -> cst.CSTNode:
        return nodes.new_nonlocal(tuple([nodes.new_name_item(self._identifier(name)) for name in node.names]))

    def _on_pass(self, node: ast.Pass) -> cst.CSTNode:
        return nodes.bare(cst.Pass)

    def _on_break(self, node: ast.Break) -> cst.CSTNode:
        return nodes.bare(cst.Break)

    def _on_continue(self, node: ast.Continue) -> cst.CSTNode:
        return nodes.bare(cst.Continue)

    def _on_if(self, node: ast.If) -> cst.CSTNode:
        test = self._expression(node.test)
        body = self._body(node.body)
        orelse: cst.CSTNode | None = None
        if node.orelse:
            first = node.orelse[0]
            if len(node.orelse) == 1 and type(first) is ast.If and self._text.startswith("elif", self._start(first)):
                orelse = self._on_if(first)
                if self._spans is not None:
                    self._note(orelse, first)
            else:
                orelse = nodes.new_else(self._body(node.orelse))
        return nodes.new_if(test, body, orelse)

    def _else(self, statements: Sequence[ast.stmt]) -> cst.CSTNode | None:
        return nodes.new_else(self._body(statements)) if statements else None

    def _on_for(self, node: ast.For | ast.AsyncFor) -> cst.CSTNode:
        asynchronous = nodes.ASYNCHRONOUS if type(node) is ast.AsyncFor else None
        target, iterated = self._expression(node.target), self._expression(node.iter)
        return nodes.new_for(target, iterated, self._body(node.body), self._else(node.orelse), asynchronous)

    def _on_while(self, node: ast.While) -> cst.CSTNode:
        return nodes.new_while(self._expression(node.test), self._body(node.body), self._else(node.orelse))

    def _on_with(self, node: ast.With | ast.AsyncWith) -> cst.CSTNode:
        asynchronous = nodes.ASYNCHRONOUS if type(node) is ast.AsyncWith else None
        items = [
            nodes.new_with_item(
                self._expression(item.context_expr),
                None if item.optional_vars is None else nodes.new_as_name(self._expression(item.optional_vars)),
            )
            for item in node.items
        ]
        return nodes.new_with(tuple(items), self._body(node.body), asynchronous)

    def _on_try(self, node: ast.Try) -> cst.CSTNode:
        body = self._body(node.body)
        handlers = [
            nodes.new_handler(
                self._or_none(item.type),
                None if item.name is None else nodes.new_as_name(self._identifier(item.name)),
                self._body(item.body),
            )
            for item in node.handlers
        ]
        orelse = self._else(node.orelse)
        return nodes.new_try(
            body, tuple(handlers), orelse, nodes.new_finally(self._body(node.finalbody)) if node.finalbody else None
        )

    def _on_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> cst.CSTNode:
        if getattr(node, "type_params", None):
            raise UnconvertibleError("type parameters")
        decorators = [nodes.new_decorator(self._expression(item)) for item in node.decorator_list]
        params = self._parameters(node.args)
        returns = None if node.returns is None else nodes.new_annotation(self._expression(node.returns))
        asynchronous = nodes.ASYNCHRONOUS if type(node) is ast.AsyncFunctionDef else None
        name = self._identifier(node.name)
        return nodes.new_function(name, params, self._body(node.body), tuple(decorators), returns, asynchronous, None)

    def _on_class(self, node: ast.ClassDef) -> cst.CSTNode:
        if getattr(node, "type_params", None):
            raise UnconvertibleError("type parameters")
        decorators = [nodes.new_decorator(self._expression(item)) for item in node.decorator_list]
        arguments = self._arguments(node.bases, node.keywords)
        named = [position for position, item in enumerate(arguments) if item.keyword is not None or item.star == "**"]
        parted = named[0] if named else len(arguments)
        name = self._identifier(node.name)
        return nodes.new_class(
            name, self._body(node.body), arguments[:parted], arguments[parted:], tuple(decorators), None
        )


_COMPOUND = frozenset(
    {
        ast.If,
        ast.For,
        ast.AsyncFor,
        ast.While,
        ast.With,
        ast.AsyncWith,
        ast.Try,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
    }
)
_STATEMENTS: dict[type[ast.AST], Callable[[_Conversion, Any], cst.CSTNode]] = {
    ast.Expr: _Conversion._on_expr,
    ast.Assign: _Conversion._on_assign,
    ast.AugAssign: _Conversion._on_aug_assign,
    ast.AnnAssign: _Conversion._on_ann_assign,
    ast.Return: _Conversion._on_return,
    ast.Raise: _Conversion._on_raise,
    ast.Assert: _Conversion._on_assert,
    ast.Delete: _Conversion._on_del,
    ast.Import: _Conversion._on_import,
    ast.ImportFrom: _Conversion._on_import_from,
    ast.Global: _Conversion._on_global,
    ast.Nonlocal: _Conversion._on_nonlocal,
    ast.Pass: _Conversion._on_pass,
    ast.Break: _Conversion._on_break,
    ast.Continue: _Conversion._on_continue,
    ast.If: _Conversion._on_if,
    ast.For: _Conversion._on_for,
    ast.AsyncFor: _Conversion._on_for,
    ast.While: _Conversion._on_while,
    ast.With: _Conversion._on_with,
    ast.AsyncWith: _Conversion._on_with,
    ast.Try: _Conversion._on_try,
    ast.FunctionDef: _Conversion._on_function,
    ast.AsyncFunctionDef: _Conversion._on_function,
    ast.ClassDef: _Conversion._on_class,
}
