"""Names and paths of modules that a program computes, with a ``*`` for each part that is unknown."""

from __future__ import annotations

import re

#: Any part of a name or path in a pattern.
ANY = "*"
#: A pattern with more unknown parts, or a longer name or path, fits nothing: it takes time.
MAX_UNKNOWN = 3
MAX_LENGTH = 200
#: What loads a module by its path.
PATH_LOADERS = ("spec_from_file_location", "SourceFileLoader", "load_source")


def regex_of(pattern: str, unknown: str = ".*") -> str:
    """The regular expression of a pattern, with another one for what is unknown."""
    return unknown.join(map(re.escape, pattern.split(ANY)))


def ends_in(pattern: str) -> re.Pattern[str]:
    """What fits the paths that end in a pattern, of which a ``*`` is a part of one folder's or file's name."""
    return re.compile("(?:.*/)?" + regex_of(pattern, "[^/]*"))
