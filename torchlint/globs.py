"""Patterns of paths, as ruff reads them: by the name of a file or folder, or by its place below a folder."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Glob:
    """A pattern and the folder it is relative to. ``*`` also crosses ``/``."""

    pattern: str
    folder: str

    def matches(self, path: str) -> bool:
        """Whether an absolute path, or just its last part, matches; what lies in a matching folder matches too."""
        by_name, by_path = _compile(self.pattern, self.folder)
        return bool(by_name.match(os.path.basename(path)) or by_path.match(_slashes(path)))

    def matches_below(self, path: str) -> bool:
        """Whether ``path``, or a folder between it and the pattern's own folder, matches."""
        relative = os.path.relpath(path, self.folder)
        names = [os.path.basename(path)] if relative.startswith("..") else _slashes(relative).split("/")
        by_name, by_path = _compile(self.pattern, self.folder)
        return any(map(by_name.match, names)) or bool(by_path.match(_slashes(path)))


@cache
def _compile(pattern: str, folder: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    # The folder is taken literally; only the pattern has wildcards.
    place = pattern if os.path.isabs(pattern) else _escape(_slashes(folder)).rstrip("/") + "/" + pattern
    place = place.replace("/./", "/").rstrip("/")
    forms = {place, place.replace("/**/", "/")}
    by_path = "|".join(fnmatch.translate(form + below) for form in sorted(forms) for below in ("", "/*"))
    return re.compile(fnmatch.translate(pattern.rstrip("/"))), re.compile(by_path)


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def _escape(path: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", path)
