"""Words without which a text reads no tensor element by element; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.tensor_words import may_be_tensor
from torchlint.source.lexemes import is_in_name, places

_READS = (".item()", "float(", "int(")
#: The element before ``.item()``, and behind ``float(``: ``v``, ``v[0]``, ``t[v]``, ``t[u, v]`` or ``t[u][v]``.
_ELEMENT = r"(\w+)((?:\[[-\w, ]{1,40}\]){0,3})"
_BEFORE = re.compile(rf"(?<!\w){_ELEMENT}$")
_AFTER = re.compile(rf"{_ELEMENT}\)")
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
        name, indices = _element(text, at)
        is_number = all(index.isdigit() for index in indices)
        counted = [name] if not counting.isdisjoint(indices) else []
        for item in over.pop(name, []) if is_number else counted:
            if item not in seen:
                seen.add(item)
                if len(seen) > _MOST or may_be_tensor(text, item):
                    return True
    return False


def _element(text: str, at: int) -> tuple[str, list[str]]:
    """What a read names, and the words by which it is indexed."""
    if text[at] == ".":
        found = _BEFORE.search(text, max(0, at - 60), at)
    elif is_in_name(text, at):  # `print(`
        return "", []
    else:
        found = _AFTER.match(text, text.index("(", at) + 1)
    return (found[1], _WORD.findall(found[2])) if found is not None else ("", [])
