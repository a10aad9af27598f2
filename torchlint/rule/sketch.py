"""What Python's own syntax tree shows of a file, found out where it is asked for; no heavy imports.

The model of a file takes ten times as long as its sketch, and rules ask for necessary conditions of a finding first.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any, TypeVar

from torchlint.rule.bindings import FUNCTIONS, LOOPS, Bound, BoundKind, Function, Loop, bound_by
from torchlint.source.ast_names import called_name
from torchlint.source.lexemes import line_starts, places

#: How many nodes, statements and bindings may be looked at: in any file, and for each character.
_LEAST_STEPS, _STEPS = 50_000, 4
_NOTHING: frozenset[str] = frozenset()
_BLOCKS = frozenset({"body", "orelse", "finalbody"})
_Answer = TypeVar("_Answer")


class SketchError(Exception):
    """The questions about a sketch take too long: the model answers them in less time."""


class Sketch:
    """The statements of a file, and the expressions of those that are asked for. Questions may raise SketchError."""

    def __init__(self, text: str, tree: ast.Module, *, alone: bool) -> None:
        """``tree`` is Python's tree of ``text``; ``alone`` tells that the file is analysed without any other file."""
        self.text = text
        self.alone = alone
        self._tree = tree
        self._nodes: dict[ast.stmt, list[ast.AST]] = {}
        self._inner: dict[ast.stmt, dict[str, list[ast.expr | None]]] = {}
        self._left = _LEAST_STEPS + _STEPS * len(text)
        self._answers: dict[Callable[[Sketch], Any], Any] = {}

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise SketchError

    def answer(self, question: Callable[[Sketch], _Answer]) -> _Answer:
        """The answer to a question about the file that several rules ask, or that is asked for many of its parts."""
        if question not in self._answers:
            self._answers[question] = question(self)
        found: _Answer = self._answers[question]
        return found

    # -- statements

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """All statements in order, each before those in it."""
        return list(self._parents)

    @cached_property
    def _parents(self) -> dict[ast.stmt, ast.stmt | None]:
        """The statements in order, each with the one that it is in."""
        found: dict[ast.stmt, ast.stmt | None] = {}
        waiting: list[tuple[ast.stmt, ast.stmt | None]] = [(node, None) for node in reversed(self._tree.body)]
        while waiting:
            node, parent = waiting.pop()
            found[node] = parent
            inner = _inner(node)
            if inner:
                waiting += [(child, node) for child in reversed(inner)]
        return found

    @cached_property
    def _homes(self) -> dict[ast.stmt, Function | None]:
        """By statement the innermost function that contains it."""
        found: dict[ast.stmt, Function | None] = {}
        for node, parent in self._parents.items():  # the statements around a node precede it
            found[node] = parent if parent is None or isinstance(parent, FUNCTIONS) else found[parent]
        return found

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each statement, decorators included."""
        return [
            min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.decorator_list
            else node.lineno
            for node in self.statements
        ]

    @cached_property
    def _rows(self) -> list[int]:
        return line_starts(self.text)

    def around(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements that contain a statement, innermost first, also beyond its function."""
        above = self._parents[statement]
        while above is not None:
            self._spend(1)
            yield above
            above = self._parents[above]

    def loops_around(self, statement: ast.stmt) -> Iterator[Loop]:
        """The loops around a statement in its function, innermost first."""
        for above in self.around(statement):
            if isinstance(above, FUNCTIONS):
                return
            if isinstance(above, LOOPS):
                yield above

    def function_of(self, statement: ast.stmt) -> Function | None:
        """The innermost function that contains a statement."""
        return self._homes[statement]

    def containing(self, *words: str) -> list[ast.stmt]:
        """The statements with one of some words in a row of their own expressions, or above in the same row."""
        rows = {bisect_right(self._rows, at) for at in places(self.text, *words)}
        self._spend(len(rows) + len(self.text) // 500)
        found: dict[ast.stmt, None] = {}
        for row in sorted(rows):
            found |= dict.fromkeys(self._at(row))
        return list(found)

    def _at(self, row: int) -> Iterator[ast.stmt]:
        """The statements whose own expressions may be in a row."""
        index = bisect_right(self._starts, row) - 1
        while index >= 0 and self._starts[index] == row:
            yield self.statements[index]
            index -= 1
        above = self.statements[index] if index >= 0 else None
        while above is not None and (above.end_lineno or above.lineno) < row:
            above = self._parents[above]
        if above is not None:
            yield above

    @cached_property
    def functions(self) -> list[Function]:
        """All functions, in order."""
        return [node for node in self.statements if isinstance(node, FUNCTIONS)]

    def within(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """A statement and all statements in it, also those of functions in it."""
        waiting = [statement]
        while waiting:
            node = waiting.pop()
            self._spend(1)
            yield node
            waiting += _inner(node)

    # -- expressions

    def nodes(self, statement: ast.stmt) -> list[ast.AST]:
        """The expressions of a statement, those of the statements in it left out; each before its parts."""
        known = self._nodes.get(statement)
        if known is None:
            known = self._nodes[statement] = list(_expressions(statement))
        self._spend(len(known))
        return known

    def calls(self, statement: ast.stmt) -> list[ast.Call]:
        """The calls in the expressions of a statement."""
        return [node for node in self.nodes(statement) if isinstance(node, ast.Call)]

    # -- names

    def values(self, name: str, body: Collection[ast.stmt] | None = None) -> list[ast.expr]:
        """The expressions that statements assign to a name, directly or by unpacking; those of ``body``, if given."""
        return [
            item.value
            for item in self.all_bindings(name)
            if item.value is not None and item.kind is not BoundKind.LOOP and (body is None or item.statement in body)
        ]

    def all_bindings(self, name: str) -> list[Bound]:
        """What binds a name anywhere in the file; ``.x`` is the attribute of any object."""
        found = self._bindings.get(name, [])
        self._spend(len(found))
        return found

    def inner_bindings(self, statement: ast.stmt) -> dict[str, list[ast.expr | None]]:
        """By name what comprehensions in the expressions of a statement iterate over; None of a lambda's parameter."""
        known = self._inner.get(statement)
        if known is not None:
            return known
        found = self._inner[statement] = {}
        for node in self.nodes(statement):
            if isinstance(node, ast.comprehension):
                for part in ast.walk(node.target):
                    if isinstance(part, ast.Name):
                        found.setdefault(part.id, []).append(node.iter)
            elif isinstance(node, ast.Lambda):
                for item in node.args.args:
                    found.setdefault(item.arg, []).append(None)
        return found

    def calls_of(self, function: Function) -> list[tuple[ast.Call, ast.stmt]] | None:
        """The calls by the name of a function, or its class, with their statements; None if it is used otherwise."""
        names = {"next" if function.name == "__next__" else function.name}
        owner = next((above for above in self.around(function) if isinstance(above, ast.ClassDef)), None)
        if function.name == "__init__" and owner is not None:
            names |= {owner.name, "cls"}
        found: list[tuple[ast.Call, ast.stmt]] = []
        for statement in self.containing(*names):
            calls = [call for call in self.calls(statement) if called_name(call) in names]
            found += [(call, statement) for call in calls]
            uses = sum(isinstance(node, ast.Name) and node.id in names for node in self.nodes(statement))
            if uses > sum(isinstance(call.func, ast.Name) for call in calls):
                return None
        return found

    def bindings(self, name: str, at: ast.stmt) -> list[Bound]:
        """What may bind a name where a statement uses it; empty if that is not among the statements."""
        found = self.all_bindings(name)
        if name in self._shared_names:
            return found
        homes: list[Function | None] = [above for above in (at, *self.around(at)) if isinstance(above, FUNCTIONS)]
        for home in (*homes, None):
            self._spend(len(found))
            here = [item for item in found if item.function is home]
            if here:
                return here
        return []

    @cached_property
    def _shared_names(self) -> set[str]:
        """The names that functions bind outside of themselves."""
        statements = self.containing("global ", "nonlocal ")
        return {name for node in statements if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}

    @cached_property
    def _bindings(self) -> dict[str, list[Bound]]:
        """By name what binds it, except for the variables of comprehensions, parameters of lambdas and patterns."""
        found: dict[str, list[Bound]] = {}
        for node, home in self._homes.items():
            for name, item in bound_by(node, home):
                found.setdefault(name, []).append(item)
        for statement in self.containing(":="):
            for part in self.nodes(statement):
                if isinstance(part, ast.NamedExpr):
                    item = Bound(BoundKind.VALUE, statement, self._homes[statement], part.value)
                    found.setdefault(part.target.id, []).append(item)
        return found

    def packages(self, name: str) -> set[str]:
        """The top-level packages that imports of a name take it from; "" for one of the project, or another binding."""
        found: set[str] = set()
        for node in (item.statement for item in self.all_bindings(name)):
            if isinstance(node, ast.Import):
                found |= {
                    item.name.partition(".")[0]
                    for item in node.names
                    if name in (item.asname, item.name.partition(".")[0])
                }
            else:
                module = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
                found.add((module or "").partition(".")[0])
        return found

    def may_be(self, node: ast.AST, names: Collection[str]) -> bool:
        """Whether the last part of a dotted name, or what the file gives a name from, is one of some names."""
        if isinstance(node, ast.Attribute):
            return node.attr in names
        if not isinstance(node, ast.Name):
            return False
        seen, waiting = {node.id}, [node.id]
        while waiting:
            name = waiting.pop()
            if name in names or not self._members.get(name, _NOTHING).isdisjoint(names):
                return True
            others = self._aliases.get(name, _NOTHING) - seen
            self._spend(len(others))
            seen |= others
            waiting += others
        return False

    @cached_property
    def _members(self) -> dict[str, set[str]]:
        """By name what it is called elsewhere: of ``import ... as``, and of ``zeros = torch.zeros``."""
        found: dict[str, set[str]] = {}
        for node in self.containing(" as "):
            for item in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
                found.setdefault(item.asname or item.name, set()).add(item.name.rpartition(".")[2])
        for name, bindings in self._bindings.items():
            for value in (item.value for item in bindings):
                if isinstance(value, ast.Attribute):
                    found.setdefault(name, set()).add(value.attr)
        return found

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        """By name the other names of the file that it is given from: ``make = zeros``."""
        found: dict[str, set[str]] = {}
        for name, bindings in self._bindings.items():
            for value in (item.value for item in bindings):
                if isinstance(value, ast.Name):
                    found.setdefault(name, set()).add(value.id)
        return found


def _inner(node: ast.stmt) -> list[ast.stmt]:
    """The statements directly in a statement, in order."""
    found: list[ast.stmt] = []
    kind = type(node)
    if kind in _SIMPLE:
        return found
    for name in node._fields:
        value = getattr(node, name, None)
        if name in _BLOCKS and isinstance(value, list):
            found += value
        elif name in ("handlers", "cases") and isinstance(value, list):
            for clause in value:
                found += clause.body
    return found


#: Statements that contain no others.
_SIMPLE = frozenset({ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete,
    ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal})  # fmt: skip

#: Expressions that contain no others.
_LEAVES = frozenset({ast.Name, ast.Constant})


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if node is not statement:
            yield node
            if type(node) in _LEAVES:
                continue
        parts: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.expr):
                parts.append(value)
            elif isinstance(value, list):
                parts += [item for item in value if isinstance(item, ast.AST) and not isinstance(item, ast.stmt)]
            elif isinstance(value, ast.AST) and not isinstance(value, (ast.expr_context, ast.operator, ast.unaryop)):
                parts.append(value)
        waiting += reversed(parts)
