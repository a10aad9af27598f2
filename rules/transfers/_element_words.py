"""Words without which a text reads no tensor element by element; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.tensor_words import may_be_tensor
from torchlint.source.lexemes import is_in_name, places

_READS = (".item()", "float(", "int(")
#: The element before ``.item()``, and behind ``float(``: ``v``, ``v[0]``, ``t[v]`` or ``t[u, v]``.
_BEFORE = re.compile(r"(?<!\w)(?:(\w+)\[(?:\w+,\s*)?)?(-?\w+)\]?$")
_AFTER = re.compile(r"(?:(\w+)\[(?:\w+,\s*)?)?(-?\w+)\]?\)")
#: The variables of a loop and what it iterates over; a pattern that begins with a literal is quick.
_LOOP = re.compile(r"for\s([^:\n]{1,120}?)\sin\b(?=\s*([^:\n\]]{1,120}))")
_WORD = re.compile(r"\w+")
_MOST = 1000  #: names that are looked up
_END = re.compile(r"[)\]}]*\s*(?:\bif\b.*)?$")


def reads_elements(text: str) -> bool:
    """Whether a read is of an element, which a loop binds or counts, of what may be a tensor."""
    counting: set[str] = set()
    over: dict[str, list[str]] = {}
    for loop in _LOOP.finditer(text):
        counting.update(_WORD.findall(loop[1]))
        if _WORD.fullmatch(loop[1]) and not loop[2].startswith(("range(", "enumerate(")):
            over.setdefault(loop[1], []).append(_END.sub("", loop[2]))
    if not counting and not over:
        return False
    seen: set[str] = set()
    for at in places(text, *_READS):
        container, variable = _element(text, at)
        if container and variable.lstrip("-").isdigit():
            container, variable = "", container
        counted = [container] if variable in counting else []
        for item in counted if container else over.pop(variable, []):
            if item not in seen:
                seen.add(item)
                if len(seen) > _MOST or may_be_tensor(text, item):
                    return True
    return False


def _element(text: str, at: int) -> tuple[str, str]:
    """The variable that a read names, and before it what is indexed with it, or nothing."""
    if text[at] == ".":
        found = _BEFORE.search(text, max(0, at - 60), at)
    elif is_in_name(text, at):  # `print(`
        return "", ""
    else:
        found = _AFTER.match(text, text.index("(", at) + 1)
    return (found[1] or "", found[2]) if found is not None else ("", "")
