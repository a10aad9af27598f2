"""Words without which a text reads no first or last items of a sort; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import in_lines, places

_SLICED = re.compile(r"sort\([^\n]{0,200}?\)(?:\[[01]\]|\.values|\.indices)?(?:\[|\.narrow\()")
#: A statement that gives what a sort of torch returns a name.
_NAMED = re.compile(r"[ \t]*([A-Za-z_][\w \t,]{0,80}?)[ \t]*=[ \t]*[^\n=#][^\n]{0,200}?(?<![a-zA-Z])(?:arg)?sort\(")
_NAME = re.compile(r"\w+")
#: An index of the name, or a comparison of its items.
_USE = r"(?:\[|\.(?:narrow|eq|ne)\(|\s?[!=]=)"
_REST = 4000  #: characters of a function behind the sort


def sorts_for_few(text: str) -> bool:
    """Whether an index or ``narrow`` follows a sort, or the name that a sort is assigned to, which may be compared."""
    if any(_SLICED.match(text, at) for at in places(text, "sort(")):
        return True
    return any(_is_sliced(text, named) for named in in_lines(text, "sort(", _NAMED))


def _is_sliced(text: str, named: re.Match[str]) -> bool:
    rest = text[named.end() : named.end() + _REST]
    return any(re.search(rf"(?<![\w.]){name}{_USE}", rest) is not None for name in _NAME.findall(named[1]))
