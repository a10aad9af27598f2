"""The notebooks of a project that may import its modules, found in their raw text, without reading their cells."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from torchlint.source.reading import is_notebook

#: A larger notebook contains data: the pictures and tables that its cells drew.
MAX_BYTES = 20_000_000
#: Bytes of all notebooks; in a project with more, none counts.
MAX_TOTAL = 100_000_000
#: Names behind ``import``, and what ``from`` names before it, as in Python code within a JSON string.
_IMPORTED = (re.compile(rb"import[ \t]+([\w., \t]+)"), re.compile(rb"from[ \t]+([\w.]+)[ \t]+import"))
_WORD = re.compile(rb"\w+")


def importing(root: str, files: Collection[str]) -> frozenset[str]:
    """Those of the notebooks among ``files``, relative to ``root``, that may import modules of the other files."""
    notebooks = [file for file in files if is_notebook(file)]
    sizes = {file: _size(os.path.join(root, file)) for file in notebooks}
    small = [file for file in notebooks if 0 < sizes[file] <= MAX_BYTES]
    if not small or sum(sizes[file] for file in small) > MAX_TOTAL:
        return frozenset()
    modules = {part.removesuffix(".py").encode() for file in files if not is_notebook(file) for part in file.split("/")}
    return frozenset(file for file in small if not modules.isdisjoint(_names_in(os.path.join(root, file))))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _names_in(path: str) -> Iterator[bytes]:
    """The words in what may be imports in the raw text of a notebook."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES)
    except OSError:
        return
    for pattern in _IMPORTED:
        for match in pattern.finditer(text):
            yield from _WORD.findall(match[1])
