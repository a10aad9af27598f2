"""What a file binds at its top level and imports anywhere, from Python's own syntax tree."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate

from torchlint.project.toplevel import top_level
from torchlint.source.ast_names import dotted_name
from torchlint.source.lexemes import line_starts
from torchlint.source.parsing import ParseError, fresh_tree, known_tree, piece_starts, python_tree
from torchlint.source.rows import first_row


class DefinitionKind(Enum):
    """What a name is bound by."""

    FUNCTION = "function"
    CLASS = "class"
    ASSIGNMENT = "assignment"
    IMPORT = "import"  #: from outside of the project


@dataclass(frozen=True)
class Import:
    """One name that an import statement binds."""

    bound: str  #: ``""`` of a star import
    module: str  #: absolute, as far as the tree shows it; else with its leading dots
    name: str  #: what is taken from the module; ``""`` for the module itself, ``"*"`` for all
    row: int  #: of the import statement, from 1
    conditional: bool = False  #: in an ``if``, ``try``, loop or ``with``
    type_checking: bool = False  #: in an ``if TYPE_CHECKING:``
    in_function: bool = False


@dataclass(frozen=True)
class TopLevelBinding:
    """One top-level statement that binds a name."""

    kind: DefinitionKind
    row: int  #: of the top-level statement, decorators included
    imported: Import | None = None


@dataclass(frozen=True)
class Pieces:
    """The top-level statements of a file, split where `torchlint.source.parsing` splits them."""

    starts: tuple[int, ...] = (0,)  #: offset of the first character of each
    rows: tuple[int, ...] = (1,)  #: row of the first statement in each, decorators included

    def row_at(self, offset: int) -> int:
        """The row of the piece that contains a character."""
        return self.rows[bisect_right(self.starts, offset) - 1]

    def index_at(self, row: int) -> int:
        """The index of the piece that contains a row."""
        return max(0, bisect_right(self.rows, row) - 1)


@dataclass(frozen=True)
class Facts:
    """What the syntax tree of a file says about its names."""

    pieces: Pieces = Pieces()
    imports: tuple[Import, ...] = ()  #: relative ones as they are written
    bindings: dict[str, tuple[TopLevelBinding, ...]] = field(default_factory=dict)
    stars: tuple[Import, ...] = ()  #: star imports at the top level
    #: by name the rows of the top-level statements that store something on what it names, call a method of it, or bind
    #: it as a ``global``
    uses: dict[str, tuple[int, ...]] = field(default_factory=dict)
    runs: bool = False  #: whether a top-level statement, other than an import or a definition, does something


def facts(text: str) -> Facts:
    """The facts of a file's text; of what is not Python, none."""
    try:
        tree = _tree(text)
    except ParseError:
        return Facts()
    begins = line_starts(text)
    firsts = [first_row(statement, text, begins) for statement in tree.body]
    pieces = _pieces(piece_starts(text, tree), firsts, begins)
    reader = _Reader(_Rows(text, "global ", begins))
    for statement, row in zip(tree.body, firsts, strict=True):
        reader.read(statement, row)
    rows = {row: pieces.rows[bisect_right(pieces.rows, row) - 1] for row in firsts}
    bindings = {
        name: tuple(_at(binding, rows.get(binding.row, binding.row)) for binding in found)
        for name, found in reader.bindings.items()
    }
    imports = sorted(_imports(tree, _Rows(text, "import", begins)), key=lambda item: item.row)
    return Facts(
        pieces,
        tuple(imports),
        bindings,
        tuple(item for item in reader.imports if item.name == "*"),
        {name: tuple(dict.fromkeys(rows.get(row, row) for row in found)) for name, found in reader.uses.items()},
        any(map(_does_something, tree.body)),
    )


def _tree(text: str) -> ast.Module:
    """The statements of a text, perhaps without most of what is in functions and classes. Raises ParseError."""
    known = known_tree(text)
    if known is not None:
        return known
    try:
        return fresh_tree(top_level(text))
    except ParseError:
        return python_tree(text)


def is_type_checking(test: ast.expr) -> bool:
    """Whether a condition is ``TYPE_CHECKING``."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _at(binding: TopLevelBinding, row: int) -> TopLevelBinding:
    if binding.row == row:
        return binding
    return TopLevelBinding(binding.kind, row, binding.imported)


def _pieces(starts: list[int], firsts: Sequence[int], begins: Sequence[int]) -> Pieces:
    """The pieces that begin at ``starts``; ``firsts`` are the first rows of the statements."""
    rows = [0] * len(starts)
    for row in firsts:
        index = bisect_right(starts, begins[row - 1]) - 1
        rows[index] = rows[index] or row
    return Pieces(tuple(starts), tuple(row or 1 for row in rows))


class _Rows:
    """The rows of a text that contain a word: a statement without it need not be searched."""

    def __init__(self, text: str, word: str, begins: Sequence[int]) -> None:
        """`begins` are the places where the rows begin."""
        ends = list(accumulate(map(len, text.split(word)[:-1]), lambda before, length: before + len(word) + length))
        self._rows = [bisect_right(begins, end) for end in ends]

    def are_in(self, node: ast.stmt) -> bool:
        """Whether one of them is a row of a statement."""
        index = bisect_left(self._rows, node.lineno)
        return index < len(self._rows) and self._rows[index] <= (node.end_lineno or node.lineno)


class _Reader:
    """Collects what statements bind, in order."""

    def __init__(self, globals_: _Rows) -> None:
        self._globals = globals_  #: the rows that may contain ``global``
        self.bindings: dict[str, list[TopLevelBinding]] = {}
        self.imports: list[Import] = []
        self.uses: dict[str, list[int]] = {}
        self._is_script = False  #: whether an import does not run the current statement

    def read(self, top: ast.stmt, row: int) -> None:
        """One top-level statement, which begins in ``row``, and those in it."""
        self._is_script = isinstance(top, ast.If) and _is_main_guard(top.test)
        waiting = [(top, False, False)]
        while waiting:
            node, conditional, type_checking = waiting.pop()
            self._bind(node, row, conditional, type_checking)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if self._globals.are_in(node):
                    self._use_globals(node, row)
                continue
            checking = type_checking or (isinstance(node, ast.If) and is_type_checking(node.test))
            inner = [(child, True, checking) for child in _inner(node)]
            if isinstance(node, ast.If):
                inner = [(child, True, checking) for child in node.body]
                inner += [(child, True, type_checking) for child in node.orelse]
            waiting += reversed(inner)

    def _use_globals(self, node: ast.stmt, row: int) -> None:
        """Note the names of the top level that a function binds: ``global FLAGS``."""
        for inner in ast.walk(node):
            for name in inner.names if isinstance(inner, ast.Global) else ():
                self.uses.setdefault(name, []).append(row)

    def _bind(self, node: ast.stmt, row: int, conditional: bool, type_checking: bool) -> None:
        """What one statement binds, without those in it."""

        def bind(name: str, kind: DefinitionKind, imported: Import | None = None) -> None:
            self.bindings.setdefault(name, []).append(TopLevelBinding(kind, row, imported))

        targets: Iterable[ast.expr] = ()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bind(node.name, DefinitionKind.FUNCTION)
        elif isinstance(node, ast.ClassDef):
            bind(node.name, DefinitionKind.CLASS)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for item in _imported(node, conditional, type_checking, False):
                self.imports.append(item)
                if item.name != "*":
                    bind(item.bound, DefinitionKind.IMPORT, imported=item)
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
            self._use(targets, None, row)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            self._use(targets, node.value, row)
        elif isinstance(node, ast.Expr):
            self._use((), node.value, row)
        else:
            targets = _targets(node)
        for target in targets:
            for name in _names(target):
                bind(name, DefinitionKind.ASSIGNMENT)

    def _use(self, targets: Iterable[ast.expr], value: ast.expr | None, row: int) -> None:
        """Note the objects that a statement stores something on, or calls a method of: ``config.WORKERS = 4``."""
        changed = [*targets, *([value.func] if isinstance(value, ast.Call) else ())]
        for name in filter(None, map(_owner, () if self._is_script else changed)):
            self.uses.setdefault(name, []).append(row)


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _names(item)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)


def _is_main_guard(test: ast.expr) -> bool:
    """Whether a condition is only true in a script: ``__name__ == "__main__"``, ``__name__ in ("__main__", name)``."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    other = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return any(map(_is_name, (test.left, other))) and any(map(_is_main, (test.left, other)))
    if not isinstance(test.ops[0], ast.In) or not isinstance(other, (ast.Tuple, ast.List, ast.Set)):
        return False
    return _is_name(test.left) and any(map(_is_main, other.elts))


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"


def _is_main(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "__main__"


def _owner(node: ast.expr) -> str:
    """``a`` of ``a.b.c`` and ``a["b"].c``; ``""`` for any other expression."""
    inner = node
    while isinstance(inner, (ast.Attribute, ast.Subscript, ast.Call)):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return inner.id if isinstance(inner, ast.Name) and inner is not node else ""


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.target
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield item.optional_vars


def _inner(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of a compound statement, in order."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            if isinstance(child, ast.stmt):
                yield child
            else:  # a handler or a case
                yield from child.body


def _imported(
    node: ast.Import | ast.ImportFrom, conditional: bool, type_checking: bool, in_function: bool
) -> Iterator[Import]:
    where = (node.lineno, conditional, type_checking, in_function)
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname is not None:
                yield Import(alias.asname, alias.name, "", *where)
            else:
                yield Import(alias.name.partition(".")[0], alias.name, "", *where)
    else:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            bound = "" if alias.name == "*" else alias.asname or alias.name
            yield Import(bound, module, alias.name, *where)


def _imports(tree: ast.Module, rows: _Rows) -> Iterator[Import]:
    """All imports, wherever they are."""
    waiting: list[tuple[ast.stmt, bool, bool, bool]] = [(node, False, False, False) for node in tree.body]
    while waiting:
        node, conditional, type_checking, in_function = waiting.pop()
        if not rows.are_in(node):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node, conditional, type_checking, in_function)
        elif isinstance(node, ast.If):
            checking = type_checking or is_type_checking(node.test)
            waiting += [(child, True, checking, in_function) for child in node.body]
            waiting += [(child, True, type_checking, in_function) for child in node.orelse]
        else:
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            below = conditional or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            waiting += [(child, below, type_checking, in_function or is_function) for child in _inner(node)]


def _does_something(node: ast.stmt) -> bool:
    """Whether a top-level statement does more than bind names."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not (dotted_name(node.value.func) or "").startswith(_SETUP)
    if isinstance(node, (ast.If, ast.Try)):  # ``if checkpoint.ok:`` around a training loop
        return any(isinstance(item, (ast.For, ast.While)) for item in node.body)
    return isinstance(node, (ast.For, ast.While, ast.With))


#: Calls that modules make when they are imported.
_SETUP = ("__all__.", "sys.path.", "warnings.", "logging.", "os.environ.", "torch.manual_seed", "matplotlib.use")
