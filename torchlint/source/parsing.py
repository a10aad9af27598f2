"""Text -> tree: whether it is Python 3 at all, said in Python's own words where they are to be had."""

from __future__ import annotations

import ast
import gc
import re
import symtable
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from torchlint.source.lexemes import line_starts
from torchlint.source.reparsing import edited_tree
from torchlint.source.rows import first_row
from torchlint.source.stack import StackError, with_large_stack
from torchlint.source.timing import phase

if TYPE_CHECKING:
    import libcst as cst

#: The reason given for a text that would exhaust the stack.
TOO_DEEP = "nested too deeply to be analysed"
#: The reason given for a text that Python reads, and libcst does not: Python's own reason has precedence.
UNREAD = "Python can read it, but torchlint's parser cannot"
#: CPython itself refuses more than 200 nested brackets.
_MAX_BRACKETS = 200
_DEEP_LINE = 20_000
#: Characters of the texts whose trees are kept: a tree takes about a hundred bytes for each.
_MAX_KEPT = 600_000
_BRACKETS = re.compile(r"[\[\](){}]")
_building = threading.Lock()


class ParseError(Exception):
    """Why a text is not Python 3, or not to be analysed, and where (row and column from 1).

    It is ``final`` unless another parser than Python's own may yet be able to read the text.
    """

    def __init__(self, reason: str, row: int | None = 1, column: int | None = 1, *, final: bool = True) -> None:
        super().__init__(reason)
        self.final = final
        self.reason = reason.strip().splitlines()[0] if reason.strip() else "invalid syntax"
        self.row = max(1, row or 1)
        self.column = max(1, column or 1)


def piece_starts(text: str, tree: ast.Module) -> list[int]:
    """Where the pieces of a text begin: at each top-level statement that begins a row, but for the first."""
    rows = line_starts(text)
    starts = [0]
    for before, statement in pairwise(tree.body):
        row = first_row(statement, text, rows)
        if row > (before.end_lineno or before.lineno):
            above = text[rows[row - 2] : rows[row - 1]]
            if not above.rstrip("\r\n").endswith("\\"):  # `a = 1; \` goes on
                starts.append(rows[row - 1])
    return starts


def parse_texts(texts: Sequence[str]) -> list[cst.Module]:
    """The trees of texts that Python reads. Raises ParseError. The parser recurses: no text can overflow the stack."""
    if not texts:
        return []
    import libcst as cst  # not needed, so not imported, for most files

    def parse() -> list[cst.Module]:
        with _unvalidated(), phase("libcst's parser"):
            return [cst.parse_module(text) for text in texts]

    try:
        return with_large_stack(parse)
    except cst.ParserSyntaxError as error:
        raise ParseError(UNREAD, error.raw_line, error.editor_column) from None
    except (RecursionError, MemoryError):
        raise ParseError(TOO_DEEP) from None
    except StackError as error:
        raise ParseError(f"there is not enough memory to parse it: {error}") from None
    except Exception:
        raise ParseError(UNREAD) from None


@contextmanager
def _unvalidated() -> Iterator[None]:
    """Let libcst build trees without asking of each node whether its text would be Python.

    It was read from Python, so it is. To ask takes a sixth of the time, and the answer is wrong for
    ``assert(a if b else c)``.
    """
    import libcst as cst

    with _building:
        validate = cst.CSTNode.__post_init__
        cst.CSTNode.__post_init__ = lambda self: None  # type: ignore[method-assign]
        try:
            yield
        finally:
            cst.CSTNode.__post_init__ = validate  # type: ignore[method-assign]


def check_syntax(text: str) -> None:
    """Raise ParseError unless ``text`` is Python 3 by the grammar of this interpreter or of libcst."""
    if hash(text) in _valid:
        return
    try:
        _collect_names(text)  # in two thirds of the time of a tree
        return
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # the parser may say something else
    try:
        python_tree(text)
    except ParseError as error:
        if error.final:
            raise
        try:
            parse_texts([text])
        except ParseError:
            raise error from None


def is_python(text: str) -> bool:
    """Whether `check_syntax` accepts ``text``."""
    try:
        check_syntax(text)
    except ParseError:
        return False
    return True


def compiles(text: str) -> bool:
    """Whether this interpreter accepts ``text`` as a module, or as a cell, which may await; it is not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<fixed>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """What is kept of a program is millions of objects that all live, and no garbage needs a collector.

    A forest takes its parts apart in the end (`Forest.release`), so that they go at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def python_tree(text: str) -> ast.Module:
    """What this interpreter reads in the text. Raises ParseError, in words that users know.

    The trees of the last texts are kept: the imports and the statements of a file are asked for one after the other.
    """
    tree = _trees.pop(text, None) or _edited_tree(text) or fresh_tree(text)
    _trees[text] = tree
    _valid.add(hash(text))
    while sum(map(len, _trees)) > _MAX_KEPT and len(_trees) > 1:
        del _trees[next(iter(_trees))]
    return tree


def _edited_tree(text: str) -> ast.Module | None:
    """The tree of a text that is the last one after an edit."""
    before = next(reversed(_trees), None)
    with phase("Python's parser"):
        return None if before is None else edited_tree(text, before, _trees[before])


def known_tree(text: str) -> ast.Module | None:
    """What this interpreter reads in the text, if that is still kept."""
    return _trees.get(text)


#: The trees of the last texts, the newest last.
_trees: dict[str, ast.Module] = {}
#: The hashes of all texts that this interpreter could read: most files are read for a project before they are checked.
_valid: set[int] = set()


def fresh_tree(text: str) -> ast.Module:
    """What this interpreter reads in the text, which is not kept. Raises ParseError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with phase("Python's parser"):
                return ast.parse(text)
    except SyntaxError as error:
        raise ParseError(error.msg or "", error.lineno, error.offset, final=_is_monster(text)) from None
    except (RecursionError, MemoryError):
        raise ParseError(TOO_DEEP) from None
    except ValueError as error:
        raise ParseError(str(error)) from None


def _is_monster(text: str) -> bool:
    """Whether a file that Python refuses could also exhaust the parser."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match.group() in "([{" else -1
        deepest = max(deepest, depth)
    longest = max((len(line) for line in text.splitlines()), default=0)
    return deepest > _MAX_BRACKETS or longest > _DEEP_LINE or text.count("elif ") > 500


def is_too_deep(text: str) -> bool:
    """Whether Python 3.10, whose `ast.parse` takes trees of any depth, could not compile the text for its depth."""
    try:
        _collect_names(text)
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    return False


def _collect_names(text: str) -> None:
    """Have Python collect the names of each scope of the text. Raises what its compiler raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        symtable.symtable(text, "<text>", "exec")
