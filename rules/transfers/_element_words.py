"""Words without which a text reads no tensor element by element; no heavy imports."""

from __future__ import annotations

import re

_READ = re.compile(r"\.item\(\)|(?:float|int)\(")
#: The variable of ``v.item()`` and ``t[v].item()``, before the method, and of ``float(v)`` and ``float(t[v])``.
_BEFORE = re.compile(r"(?<!\w)(\w+)\]?$")
_AFTER = re.compile(r"(?:\w+\[)?(\w+)\]?\)")
_BOUND = re.compile(r"for\s([^:\n]{1,120}?)\sin\b")  # a pattern that begins with a literal is quick
_WORD = re.compile(r"\w+")


def reads_elements(text: str) -> bool:
    """Whether a read is of a variable that a loop binds."""
    bound = {name for loop in _BOUND.finditer(text) for name in _WORD.findall(loop[1])}
    return bool(bound) and any(_variable(text, read) in bound for read in _READ.finditer(text))


def _variable(text: str, read: re.Match[str]) -> str:
    if read[0].startswith("."):
        found = _BEFORE.search(text, max(0, read.start() - 60), read.start())
    elif read.start() and _WORD.match(text, read.start() - 1):  # `print(`
        return ""
    else:
        found = _AFTER.match(text, read.end())
    return found[1] if found is not None else ""
