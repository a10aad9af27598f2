"""Words without which a text passes no tensor to ``torch.tensor``; no heavy imports."""

from __future__ import annotations

import re
from bisect import bisect_left

_CALL = re.compile(
    r"(?<![\w\])])(?:\w+\.)?tensor\(\s*(?:data\s*=\s*)?(?![\[\d\"'){*-]|True\b|False\b|float\(|int\(|len\(|list\(|range\(|np\.|str\()"
)
#: The first argument, up to its end or 160 characters.
_ARGUMENT = re.compile(r"[^,()\[\]]{0,80}(?:[(\[][^()\[\]]{0,80}[)\]][^,()\[\]]{0,80}){0,4}")
#: What makes a tensor, and not an array or number.
_MAKES = re.compile(
    r"\b(?:torch|th|F|nn|functional)\.(?!tensor\(|float|int|long|load\(|[fi]info|numel)\w|criterion|Parameter\(|loss_fn|"
    r"(?<![\w.])(?:rand\w*|zeros|ones|full|linspace|arange|stack|cat)\(|"
    r"\.(?:view|argmax|softmax|detach|cuda|unsqueeze|permute|to|long|float|clamp|sigmoid|contiguous|new_\w+)\("
)
_NAME = re.compile(r"((?:self\.)?[a-zA-Z_]\w*)(?:\.(?:data|T)\b|\[|\s*$)")
_HOST = re.compile(r"\.(?:item|tolist|numpy)\(|^\s*(?:np|numpy|math)\.|\.shape|\.size\(")
_VALUE = 160  #: characters of an assigned value


def copies_tensor(text: str) -> bool:
    """Whether ``torch.tensor`` may be given a tensor: an expression of torch, or a name to which one is assigned."""
    known: dict[str, list[int]] = {}
    return any(_is_tensor(text, call.end(), known) for call in _CALL.finditer(text))


def _is_tensor(text: str, start: int, known: dict[str, list[int]]) -> bool:
    """Whether the argument at ``start`` may be a tensor; ``known`` has the values that are assigned to each name."""
    found = _ARGUMENT.match(text, start)
    argument = found[0] if found is not None else ""
    if _HOST.search(argument):
        return False
    if _MAKES.search(argument):
        return True
    name = _NAME.match(argument)
    if name is None:
        return False
    places = known.get(name[1])
    if places is None:
        assigned = rf"(?<!\w){re.escape(name[1])}(?!\w)[\w, ]{{0,40}}(?::[^=\n]{{0,40}})?=(?!=)"
        places = known[name[1]] = [place.end() for place in re.finditer(assigned, text)]
    if not name[1].startswith("self."):
        before = text.rfind("\n", 0, start)  # `x = torch.tensor(x)` assigns later
        behind = bisect_left(places, before)
        places = places[max(0, behind - 1) : behind]
    return any(_makes(text, place) for place in places)


def _makes(text: str, start: int) -> bool:
    value = text[start : start + _VALUE].partition("\n")[0]
    return _MAKES.search(value) is not None and _HOST.search(value) is None
