"""Words without which a text calls no builtin function on a tensor; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.tensor_words import may_be_tensor
from torchlint.source.lexemes import is_in_name, places

_CALLS = ("sum(", "max(", "min(", "sorted(", "any(", "all(")
#: The start of the only argument: no list, generator, text or number.
_ARGUMENT = re.compile(r"\s*(?=[A-Za-z_(~-])")
_END = re.compile(r"[,\[\](){}'\"]|\b(?:for|if)\b")
_REACH = 300  #: characters of an argument
_MOST = 1000  #: arguments that are looked up


def calls_builtin(text: str) -> bool:
    """Whether a call has one argument that may be a tensor: no comprehension, and not several values."""
    seen: set[str] = set()
    for at in places(text, *_CALLS):
        if is_in_name(text, at) or text[at - 1 : at] == ".":
            continue
        start = _ARGUMENT.match(text, text.index("(", at) + 1)
        argument = _only_argument(text, start.end()) if start is not None else None
        if argument is None or argument in seen or _is_plain(argument):
            continue
        seen.add(argument)
        if len(seen) > _MOST or may_be_tensor(text, argument):
            return True
    return False


def _only_argument(text: str, start: int) -> str | None:
    """The argument that begins at a place, if it is the only one."""
    depth = 0
    for mark in _END.finditer(text, start, start + _REACH):
        found = mark[0]
        if found in "([{":
            depth += 1
        elif found in ")]}":
            if depth == 0:
                return text[start : mark.start()]
            depth -= 1
        elif depth == 0 and found in (",", "for"):
            return None
    return None


def _is_plain(argument: str) -> bool:
    """Whether an argument is known not to be a tensor: values of a dictionary, a set, a list of files."""
    return argument.rstrip().endswith((".values()", ".keys()", ".items()", ".shape", ".size()", ".parameters()")) or (
        argument.startswith(("set(", "map(", "glob", "os.listdir(", "list(", "zip(", "range(", "filter("))
    )
