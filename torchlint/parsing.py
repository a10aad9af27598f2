"""Text -> tree: whether it is Python 3 at all, said in Python's own words where they are to be had."""

from __future__ import annotations

import ast
import gc
import re
import symtable
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

_TOO_DEEP = "nested too deeply to be analysed"
#: CPython itself refuses more than 200 nested brackets.
_MAX_BRACKETS = 200
#: The parser recurses; a thread of its own gives it room, so that no input can overflow the stack.
_STACK_BYTES = 256 * 1024 * 1024
_DEEP_LINE = 20_000
_BRACKETS = re.compile(r"[\[\](){}]")


class ParseError(Exception):
    """Why a text is not Python 3, or not to be analysed, and where (row and column from 1)."""

    def __init__(self, reason: str, row: int | None = 1, column: int | None = 1) -> None:
        super().__init__(reason)
        self.reason = reason.strip().splitlines()[0] if reason.strip() else "invalid syntax"
        self.row = max(1, row or 1)
        self.column = max(1, column or 1)


def parse_tree(text: str) -> cst.Module:
    """The libcst tree of ``text``. Raises ParseError; no input overflows the stack."""
    complaint = _complaint(text)
    if sys.version_info < (3, 11) and _is_too_deep(text):
        raise ParseError(_TOO_DEEP)
    import libcst as cst  # not needed, so not imported, for most files

    outcome: list[cst.Module | BaseException] = []

    def work() -> None:
        try:
            outcome.append(cst.parse_module(text))
        except BaseException as error:  # handed to the caller below
            outcome.append(error)

    previous = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(previous)
    thread.join()
    result = outcome[0]
    if isinstance(result, cst.Module):
        return result  # whatever the complaint: the file may be newer Python than the one that runs
    if complaint is not None:
        raise complaint
    if isinstance(result, cst.ParserSyntaxError):
        raise ParseError(result.message, result.raw_line, result.editor_column)
    if isinstance(result, (RecursionError, MemoryError)):
        raise ParseError(_TOO_DEEP)
    if isinstance(result, Exception):
        raise ParseError(f"cannot be parsed: {result}")
    raise result


def check_syntax(text: str) -> None:
    """Raise ParseError unless ``text`` is Python 3 by the grammar of this interpreter or of libcst."""
    if _complaint(text) is not None:
        parse_tree(text)


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


def _complaint(text: str) -> ParseError | None:
    """What this interpreter has against the text, in words that users know. Raises what no other parser could mend."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        complaint = ParseError(error.msg or "", error.lineno, error.offset)
        if _is_monster(text):
            raise complaint from None
        return complaint
    except (RecursionError, MemoryError):
        raise ParseError(_TOO_DEEP) from None
    except ValueError as error:
        raise ParseError(str(error)) from None
    return None


def _is_monster(text: str) -> bool:
    """Whether a file that Python refuses could also exhaust the parser."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match.group() in "([{" else -1
        deepest = max(deepest, depth)
    longest = max((len(line) for line in text.splitlines()), default=0)
    return deepest > _MAX_BRACKETS or longest > _DEEP_LINE or text.count("elif ") > 500


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
