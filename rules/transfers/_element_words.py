"""Words without which a text reads no tensor element by element; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.tensor_words import may_be_tensor
from torchlint.source.lexemes import behind, is_in_name, places

_READS = (".item()", "float(", "int(", "range(", ".cpu()")
_COPIES = r"(?:\.data|\.detach\(\)|\.cpu\(\)|\.numpy\(\)){0,4}"
#: The element before ``.item()``, and behind ``float(`` or ``range(1, ``: ``v``, ``v[0]``, ``t[v]``, ``t[v][0]``.
_BEFORE = re.compile(r"(?<!\w)(\w+)((?:\[[\w\s,-]{1,40}\]){0,4})" + _COPIES + "$")
_AFTER = re.compile(
    r"(?:\d{1,9},\s|(?!len\()[\w.]{1,20}\(){0,2}(\w+)((?:\[[\w\s,-]{1,40}\]){0,4})" + _COPIES + r"\s{0,3}[)*/+-]"
)
#: An element that gets a name: ``x = t[v]``.
_NAMED = re.compile(r"\s{0,3}=\s{0,3}(\w+)((?:\[[\w\s,-]{1,40}\]){1,4})")
#: The variables of a loop and what it iterates over; a pattern that begins with a literal is quick.
_LOOP = re.compile(r"for\s([^:\n]{1,120}?)\sin\b(?=\s*([^:\n\]]{1,120}))")
_JOINED = re.compile(r"\b(?:enumerate|zip)\(")
#: What a list of pairs is made of: ``pairs = list(zip(x, y))``.
_ZIPPED = re.compile(r"\s?=\s?list\(zip\(([^\n]{1,200})")
_WORD = re.compile(r"\w+")
_MOST = 1000  #: names that are looked up
_END = re.compile(r"[)\]}]*\s*(?:\bif\b.*)?$")


def reads_elements(text: str) -> bool:
    """Whether a read is of an element, which a loop binds or counts, of what may be a tensor."""
    counting, over = _loops(text)
    if not counting and not over:
        return False
    seen: set[str] = set()
    names: set[str] = set()
    for at in places(text, *_READS):
        element = _element(text, at)
        if element is None:
            continue
        container, indices = element[0], _WORD.findall(element[1])
        items = [container] if counting.intersection(indices) else []
        items += [order for index in indices for order in over.get(index, ())]  # `results.scores[index]`
        if all(index.isdigit() for index in indices):
            items += over.pop(container, [])
        if not indices and container not in names and text.startswith(".item", at):
            names.add(container)
            items += _named(text, container, counting)
        for item in items:
            if item not in seen:
                seen.add(item)
                if may_be_tensor(text, item):
                    return True
        if len(seen) + len(names) > _MOST:
            return True
    return False


def _loops(text: str) -> tuple[set[str], dict[str, list[str]]]:
    """The variables of all loops, and what each of them may be an element of."""
    counting: set[str] = set()
    over: dict[str, list[str]] = {}
    for loop in _LOOP.finditer(text):
        names = _WORD.findall(loop[1])
        counting.update(names)
        if len(names) == 1 and names[0] == loop[1] and not loop[2].startswith(("range(", "enumerate(")):
            over.setdefault(loop[1], []).append(_END.sub("", loop[2]))
        elif len(names) > 1:
            words = _WORD.findall(loop[2]) if _JOINED.search(loop[2]) is not None else []
            if "list(zip(" in text:
                lists = (found[1] for word in _WORD.findall(loop[2]) for _, found in behind(text, word, _ZIPPED))
                words += [word for item in lists for word in _WORD.findall(item)]
            for name in names:
                over.setdefault(name, []).extend(words)
    return counting, over


def _element(text: str, at: int) -> tuple[str, str] | None:
    """The variable that a read names, and the indices behind it."""
    if text[at] == ".":
        found = _BEFORE.search(text, max(0, at - 60), at)
    elif is_in_name(text, at):  # `print(`
        return None
    else:
        found = _AFTER.match(text, text.index("(", at) + 1)
    return (found[1], found[2]) if found is not None else None


def _named(text: str, name: str, counting: set[str]) -> list[str]:
    """What a variable is an element of: ``t`` of ``x = t[v]``."""
    return [
        found[1]
        for at, found in behind(text, name, _NAMED)
        if not is_in_name(text, at) and counting.intersection(_WORD.findall(found[2]))
    ]
