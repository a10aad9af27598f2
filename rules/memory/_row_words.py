"""Words without which a text writes no tensor row by row; no heavy imports."""

from __future__ import annotations

import re

#: The head of a loop, and the first lines of its body: names, and an assignment to an item.
_HEAD = re.compile(
    r"for\s([^:\n]{1,120}?)\sin\b([^\n]{1,200}):[^\S\n]*(?:#[^\n]*)?\n"
    r"((?:[^\S\n]*\w+ = [^\n]*\n){0,3})(?:\s*if [^\n]{1,80}:\n)?"
    r"\s*[\w.]+\[([^\n]{1,160}?)\](?: *(\+?)= |\.\w{4,12}_\()([^\n]*\n[^\n]*)"
)
#: Methods that write the items of a tensor that an index names.
SCATTERING = frozenset({"index_add_", "index_copy_", "index_fill_", "scatter_", "scatter_add_"})
#: Methods that set all items of what an index selects to a number.
FILLING = frozenset({"fill_", "zero_"})
#: What there are only a few of.
FEW = re.compile(
    r"layer|block|scale|level|head|crop|gpu|device|view|key|stage|group|branch|conv|set|split|chunk|expert|stream|"
    r"modalit|flow|anchor|dim|channel|depth|fold|aug|kernel|task|worker|rank|class|label_values|part|pathway|axis",
    re.IGNORECASE,
)
#: Functions that run once.
ONCE = re.compile(r"init|reset|build|create_|make_|load")
_WORD = re.compile(r"\w+")
#: The index of a row, alone or behind others.
_ROW = re.compile(r"\[(?:[\w:]{1,40},\s?){0,4}(\w+)")
_NAMED = re.compile(r"^[^\S\n]*(\w+) = ", re.MULTILINE)
#: A number, perhaps the only argument of a call.
_NUMBER = re.compile(
    r"-?(?:[\d.]+(?:e[-+]?\d+)?|True|False|(?:np|numpy|math|torch)\.inf|float\([^()\n]*\)|(?=\)))\s*\)?\s*(?:#|$)"
)


def writes_rows(text: str) -> bool:
    """Whether the body of a loop begins with an assignment to an item that the loop variable names."""
    return any(_writes_row(*head.groups()) for head in _HEAD.finditer(text))


def _writes_row(targets: str, over: str, before: str, index: str, plus: str | None, value: str) -> bool:
    if ".items()" in over or ".keys()" in over or "'" in index or '"' in index:
        return False
    bound = _WORD.findall(targets) + _NAMED.findall(before)
    if set(bound).isdisjoint(_WORD.findall(index)):
        return False
    if _NUMBER.match(value.splitlines()[0]):
        return bool(plus) or ":" in index
    return (
        not plus
        and re.search(r"\b(?:range|enumerate|zip)\(", over) is not None
        and not set(bound).isdisjoint(_ROW.findall(value))
    )
