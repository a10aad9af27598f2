"""Patterns of paths, as ruff reads them: by the name of a file or folder, or by its place below a folder."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from functools import cache

#: A class of characters, an escaped character, or any other one.
_TOKEN = re.compile(
    r"""
    (?P<class>\[ (?: [!^] (?: \][^]]* | [^]]+ ) | \][^]]* | [^]!^][^]]* ) \])
  | \\(?P<escaped>.)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Deeper braces are refused, before Python's regular expressions refuse them.
_MAX_DEPTH = 20


class PatternError(ValueError):
    """A pattern is not valid; the text says why."""


@dataclass(frozen=True)
class Glob:
    """A pattern and the folder it is relative to. ``*`` also crosses ``/``."""

    pattern: str
    folder: str

    @property
    def by_name(self) -> str:
        """A regular expression for the name of a file or folder."""
        return translated(self.pattern.rstrip("/"))

    @property
    def by_path(self) -> str:
        """A regular expression for absolute paths: what the pattern names, and all below it."""
        place = self.pattern
        if not os.path.isabs(place):  # the folder is taken literally; only the pattern has wildcards
            place = re.sub(r"([*?[{}\\])", r"[\1]", _slashes(self.folder)).rstrip("/") + "/" + place
        place = place.replace("/./", "/").rstrip("/")
        forms = {place, place.replace("/**/", "/")}
        return "|".join(translated(form + below) for form in sorted(forms) for below in ("", "/*"))


def translated(pattern: str) -> str:
    """A regular expression for what ``pattern`` matches as a whole. Raises PatternError."""
    found: list[str] = []
    plain, depth = "", 0
    for token in _TOKEN.finditer(_slashes(pattern)):
        word = token["other"]
        if token["class"]:
            plain += re.sub(r"^\[\^", "[!", _checked(token["class"]))
        elif token["escaped"]:
            plain += re.sub(r"[*?[]", r"[\g<0>]", token["escaped"])
        elif word == "[":
            raise PatternError("`[` is not closed; `[[]` matches the character")
        elif word in "{}" or (word == "," and depth):
            depth += {"{": 1, "}": -1, ",": 0}[word]
            if depth < 0:
                raise PatternError("`}` is not opened; `[}]` matches the character")
            if depth > _MAX_DEPTH:
                raise PatternError("too many nested braces")
            found += _without_end(plain), {"{": "(?:", "}": ")", ",": "|"}[word]
            plain = ""
        else:
            plain += word
    if depth:
        raise PatternError("`{` is not closed; `[{]` matches the character")
    return f"(?s:{''.join(found)}{_without_end(plain)})\\Z"


def _checked(characters: str) -> str:
    """The class of characters. Raises PatternError if one of its ranges is not valid."""
    for first, last in re.findall(r"(?s)(.)-(.)", characters[1:-1].lstrip("!^")):
        if first > last:
            raise PatternError(f"`{first}-{last}` is not a range of characters")
    return characters


def _without_end(pattern: str) -> str:
    """A regular expression for a part of a pattern that has no braces."""
    return fnmatch.translate(pattern)[len("(?s:") : -len(")\\Z")]


def matches(globs: tuple[Glob, ...], path: str) -> bool:
    """Whether one of ``globs`` matches an absolute path, or just its last part."""
    by_name, by_path = _compile(globs)
    return bool(by_name.match(os.path.basename(path)) or by_path.match(_slashes(path)))


def matches_parents(globs: tuple[Glob, ...], path: str) -> bool:
    """Whether one of ``globs`` matches ``path``, or a folder between it and the pattern's own."""
    for glob in globs:
        relative = _slashes(os.path.relpath(path, glob.folder))
        names = relative.split("/") if not relative.startswith("../") else [os.path.basename(path)]
        only = (glob,)
        if matches(only, path) or any(map(_compile(only)[0].match, names)):
            return True
    return False


#: By identity, with the patterns themselves: to hash them for each path would take longer than to match it.
_compiled: dict[int, tuple[tuple[Glob, ...], re.Pattern[str], re.Pattern[str]]] = {}


def _compile(globs: tuple[Glob, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    known = _compiled.get(id(globs))
    if known is None or known[0] is not globs:
        known = _compiled[id(globs)] = (globs, *_patterns(globs))
    return known[1:]


@cache
def _patterns(globs: tuple[Glob, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    nothing = "(?!)"
    return (
        re.compile("|".join(glob.by_name for glob in globs) or nothing),
        re.compile("|".join(glob.by_path for glob in globs) or nothing),
    )


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")
