"""The checked files as a trace names them: paths of another machine, functions by a row, statements."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.source import reading
from torchlint.source.parsing import ParseError, python_tree
from torchlint.source.source import Source, SourceError

#: `src/train.py(12): step`
_FRAME = re.compile(r"(?P<path>[^<].*)\((?P<row>\d{1,9})\): (?P<name>.+)")
#: Folders of code that is installed.
_INSTALLED = re.compile(r"(^|/)(site-packages|dist-packages|lib/python\d[\d.]*)/")
#: Frames of expressions, which have the row of the expression; the first ones run where they are written.
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_EXPRESSIONS = _COMPREHENSIONS | {"<lambda>", "<genexpr>"}
_MODULE = "<module>"

Rows = tuple[int, int]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Frame:
    """A function of a checked file that runs, or an expression that runs as one."""

    file: File
    name: str
    row: int  #: where it is defined; in a function that ran already when the recording began, where it was
    node: ast.Module | _Function | None  #: None: an expression

    @property
    def is_comprehension(self) -> bool:
        """Whether it is a comprehension, which runs where it is written."""
        return self.name in _COMPREHENSIONS


class File:
    """A checked file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts = os.path.abspath(path).replace(os.sep, "/").split("/")

    @cached_property
    def source(self) -> Source:
        """Its text; nothing if it cannot be read any more."""
        try:
            return reading.read(self.path)
        except (OSError, SourceError):
            return Source.from_text("", self.path)

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree; an empty one if it is not valid Python."""
        try:
            return python_tree(self.source.code)
        except ParseError:
            return ast.Module([], [])

    @cached_property
    def _functions(self) -> dict[str, list[_Function]]:
        found: dict[str, list[_Function]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, _Function):
                found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def statements(self) -> dict[int, ast.stmt]:
        """By row, the innermost statement there; a compound one has the rows of its header only."""
        found: dict[int, ast.stmt] = {}
        for node in ast.walk(self.tree):  # outer nodes before inner ones
            if isinstance(node, ast.stmt):
                first, last = header(node)
                found.update((row, node) for row in range(first, last + 1))
        return found

    def frame(self, name: str, row: int) -> Frame | None:
        """The frame of a function by its name and a row of it."""
        if name in _EXPRESSIONS:
            return Frame(self, name, row, None) if row in self.statements else None
        if name == _MODULE:
            return Frame(self, name, row, self.tree)
        around = [node for node in self._functions.get(name.rpartition(".")[2], ()) if is_within(row, whole(node))]
        return Frame(self, name, row, max(around, key=whole)) if around else None  # the innermost


def header(node: ast.stmt) -> Rows:
    """The first and last row of a statement; of a compound one, of its header."""
    first, last = whole(node)
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return first, last
    below = getattr(body[0], "lineno", 0) or body[0].pattern.lineno
    decorators = [decorator.lineno for decorator in getattr(body[0], "decorator_list", ())]
    return first, max(first, min([below, *decorators]) - 1)


def whole(node: ast.stmt) -> Rows:
    """The first and last row of a statement, with its decorators and its body."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return min([node.lineno, *decorators]), node.end_lineno or node.lineno


def is_within(row: int, rows: Rows) -> bool:
    """Whether a row is one of ``rows``."""
    return rows[0] <= row <= rows[1]


class Files:
    """The checked files, found by the paths of a trace, which another machine may have written."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.all = [File(path) for path in paths]
        self._by_name: dict[str, list[File]] = {}
        for file in self.all:
            self._by_name.setdefault(file.parts[-1], []).append(file)
        self._paths: dict[str, File | None] = {}
        self._frames: dict[str, Frame | None] = {}
        self._stacks: dict[str, Sequence[Frame]] = {}

    def file(self, path: str) -> File | None:
        """The file with the longest part of ``path`` in common, from its end; None if there are several.

        torch leaves out what is in ``sys.path``: all of a relative path must be the end of the file's.
        """
        if path not in self._paths:
            self._paths[path] = self._file(path)
        return self._paths[path]

    def _file(self, path: str) -> File | None:
        slashes = path.replace("\\", "/")
        if _INSTALLED.search(slashes):
            return None
        is_absolute = slashes.startswith("/") or slashes[1:3] == ":/"
        parts = [part for part in slashes.split("/") if part not in ("", ".", "..")]
        common = [(_common_end(parts, file.parts), file) for file in self._by_name.get(parts[-1] if parts else "", ())]
        longest = max((count for count, _ in common), default=0)
        found = [file for count, file in common if count == longest]
        return found[0] if len(found) == 1 and (is_absolute or longest == len(parts)) else None

    def frame(self, name: str) -> Frame | None:
        """The frame that an event is named after, if it is in a checked file."""
        if name not in self._frames:
            match = _FRAME.fullmatch(name)
            file = self.file(match["path"]) if match else None
            self._frames[name] = file.frame(match["name"], int(match["row"])) if match and file else None
        return self._frames[name]

    def stack(self, text: str) -> Sequence[Frame]:
        """The frames of a call stack, innermost first, as older versions of torch wrote one for each operator."""
        if text not in self._stacks:
            frames = (self.frame(name.strip()) for name in text.split(";"))
            self._stacks[text] = tuple(frame for frame in frames if frame is not None)
        return self._stacks[text]


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths have in common, from their ends."""
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
