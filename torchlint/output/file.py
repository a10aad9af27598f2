"""``--output-file``: the report goes to a file, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from typing import TextIO

from torchlint.source.replacing import replace_file


class OutputError(Exception):
    """The report cannot be written; the text is one line for the user."""


class _Report(io.StringIO):
    """A report that becomes the content of a file: it is never coloured."""

    is_report_file = True


@contextlib.contextmanager
def report_to(path: str) -> Iterator[TextIO]:
    """What is written here becomes the content of ``path`` at the end, unless an exception ends the run before.

    Raises OutputError, before the run where that can be known.
    """
    with _refusals(path):
        _refuse_early(path)
    report = _Report()
    yield report
    with _refusals(path):
        _write(path, report.getvalue().encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def _refusals(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"--output-file {path}: cannot be written: {error.strerror or error}") from error


def _refuse_early(path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(None, "it is a folder")
    if not os.path.exists(path) and not os.path.isdir(folder):
        raise FileNotFoundError(None, f"there is no folder {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(None, "permission denied")


def _write(path: str, content: bytes) -> None:
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a pipe: nothing to put a file in the place of
        with open(path, "wb") as file:
            file.write(content)
        return
    target = os.path.realpath(path)
    replace_file(target, content, _mode(target))


def _mode(target: str) -> int:
    """The permissions of the file, or those that a new one gets."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
