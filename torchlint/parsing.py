"""Source -> model: whether a text is Python 3 at all, said in Python's own words."""

from __future__ import annotations

import ast
import gc
import symtable
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchlint.rule import Option
from torchlint.source import Source

if TYPE_CHECKING:
    from torchlint.model.module import Module


_TOO_DEEP = "nested too deeply to be analysed"


class NotPythonError(Exception):
    """Why a text is not Python 3, and where (row and column from 1)."""

    def __init__(self, reason: str, row: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.column = column


def parse(source: Source, options: Mapping[str, Mapping[str, Option]], target_torch: tuple[int, int] | None) -> Module:
    """The model of a file. Raises NotPythonError."""
    from torchlint.model.module import Module, ParseError  # not needed, so not imported, for most files

    if sys.version_info < (3, 11) and _is_too_deep(source.text):
        raise NotPythonError(_TOO_DEEP)
    try:
        return Module.parse(source.text, path=source.path, options=options, target_torch=target_torch)
    except ParseError as error:
        raise _complaint(source) or NotPythonError(error.message, error.row, error.column) from None


def check_syntax(source: Source) -> None:
    """Raise NotPythonError unless the text is Python 3 by the grammar of this interpreter or of libcst."""
    complaint = _complaint(source)
    if complaint is not None:
        from torchlint.model.module import ParseError
        from torchlint.model.module import parse as parse_tree

        try:
            parse_tree(source.text)
        except ParseError:
            raise complaint from None


def compiles(text: str) -> bool:
    """Whether this interpreter accepts ``text`` as a module; it is not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<fixed>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """A tree of libcst is millions of objects that all live: collecting in between is wasted time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _complaint(source: Source) -> NotPythonError | None:
    """What this interpreter has against the text, in words that users know."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.text)
    except SyntaxError as error:
        row = min(max(error.lineno or 1, 1), len(source.line_starts))
        return NotPythonError(error.msg, row, max(error.offset or 1, 1))
    except (RecursionError, MemoryError):
        return NotPythonError(_TOO_DEEP)
    except ValueError as error:
        return NotPythonError(str(error))
    return None


def _is_too_deep(text: str) -> bool:
    """Whether Python 3.10, whose `ast.parse` takes trees of any depth, could not compile the text for its depth."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(text, "<text>", "exec")
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    return False
