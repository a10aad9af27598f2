"""Work on deeply nested code, done by a thread with a large stack."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Returned = TypeVar("Returned")

#: Reserved, not used, until the recursion needs it.
_STACK_BYTES = 256 * 1024 * 1024
#: A level of a tree of libcst takes up to ten calls.
_RECURSION_LIMIT = 60_000
_NAME = "torchlint with a large stack"


class StackError(Exception):
    """The system gives no thread with such a stack: the memory of the process is limited."""


def with_large_stack(work: Callable[[], Returned]) -> Returned:
    """What ``work`` returns or raises, called in a thread of its own that may recurse deeply.

    RecursionError is raised where even that is not enough. Raises StackError if no such thread can be started.
    """
    done: list[Returned] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # raised by the caller below
            failed.append(error)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        _start(run).join()
    finally:
        sys.setrecursionlimit(limit)
    if failed:
        raise failed[0]
    return done[0]


def has_large_stack() -> bool:
    """Whether the caller runs in such a thread: what recurses too deeply here recurses without end."""
    return threading.current_thread().name == _NAME


def _start(run: Callable[[], None]) -> threading.Thread:
    previous = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=run, name=_NAME)
        thread.start()
    except RuntimeError as error:
        raise StackError(str(error)) from None
    finally:
        threading.stack_size(previous)
    return thread
