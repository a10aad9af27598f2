"""The content of a file -> its source: Python text, or by its name a notebook."""

from __future__ import annotations

import os
import stat

from torchlint.source.ranges import Place
from torchlint.source.source import Source, SourceError

#: Larger files contain data, not programs; parsing one would take minutes and gigabytes.
MAX_BYTES = 10 * 1024 * 1024
#: Notebooks contain the pictures that their cells drew.
MAX_NOTEBOOK_BYTES = 100 * 1024 * 1024


def is_notebook(path: str) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.lower().endswith(".ipynb")


def read(path: str) -> Source:
    """The source of a file. Raises OSError, or SourceError if it is not Python source text."""
    status = os.stat(path)  # before it is opened: a pipe would wait for a writer
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"not a regular file (standard input is read with `-`): {path}")
    _check_size(status.st_size, path)
    with open(path, "rb") as file:
        return from_bytes(file.read(), path)


def from_bytes(data: bytes, path: str = "-") -> Source:
    """The source of a file with this content: a notebook if ``path`` says so, else Python. Raises SourceError."""
    _check_size(len(data), path)
    return _as_named(Source.decoded(data, path))


def _check_size(size: int, path: str) -> None:
    limit = MAX_NOTEBOOK_BYTES if is_notebook(path) else MAX_BYTES
    if size > limit:
        raise SourceError(f"the file is too large: {size:,} bytes (the limit is {limit:,})")


def from_content(content: str, path: str) -> Source:
    """The same for a file that is already decoded."""
    return _as_named(Source.from_text(content, path))


def containing(source: Source, place: Place) -> Source | None:
    """The text that a place named by a finding in ``source`` is in; None if it is a file that cannot be read."""
    if not place.path:
        return source
    try:
        return read(place.path)
    except (OSError, SourceError):
        return None


def _as_named(source: Source) -> Source:
    """The notebook in this text, if the path says that it is one, else the text itself."""
    if not is_notebook(source.path):
        return source
    from torchlint.source.notebook import Notebook  # not needed, so not imported, for most files

    return Notebook.from_file(source)
