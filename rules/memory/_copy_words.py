"""Words without which a text passes no tensor to ``torch.tensor``; no heavy imports."""

from __future__ import annotations

import re
from bisect import bisect_left

_CALL = re.compile(
    r"tensor\((?<![\w\])]tensor\()\s*(?:data\s*=\s*)?(?![\[\d\"'){*-]|True\b|False\b|float\(|int\(|len\(|list\(|range\(|np\.|str\()"
)
#: The first argument, up to its end or 160 characters.
_ARGUMENT = re.compile(r"[^,()\[\]]{0,80}(?:[(\[][^()\[\]]{0,80}[)\]][^,()\[\]]{0,80}){0,4}")
#: What makes a tensor, and not an array or number.
_MAKES = re.compile(
    r"\b(?:torch|th|F|nn|functional)\.(?!tensor\(|float|int|long|load\(|[fi]info|numel)\w|criterion|Parameter\(|loss_fn|"
    r"(?<![\w.])(?:rand\w*|zeros|ones|full|linspace|arange|stack|cat)\(|"
    r"\.(?:view|argmax|softmax|detach|clone|cuda|unsqueeze|permute|to|long|float|clamp|sigmoid|contiguous|new_\w+)\("
)
_NAME = re.compile(r"((?:self\.)?[a-zA-Z_]\w*)(?:\.(?:data|T)\b|\[|\s*$)")
_OPERATOR = re.compile(r"[-+*/]")
#: What is between a name and the value that is assigned to it: further targets, or an annotation.
_TO_VALUE = r"(?:,[\w., ]{0,80}?)?[ \t]*(?::[^=\n]{0,40})?=(?!=)"
_TARGET = re.compile(r"[\w., ]*")
_TARGETS = 80  #: characters of the targets before a name
_HOST = re.compile(r"\.(?:item|tolist|numpy)\(|^\s*(?:np|numpy|math)\.|\.shape|\.size\(")
_VALUE = 160  #: characters of an assigned value


def copies_tensor(text: str) -> bool:
    """Whether ``torch.tensor`` may be given a tensor: an expression of torch, or a name to which one is assigned."""
    names: list[tuple[str, int]] = []
    for call in _CALL.finditer(text):
        found = _ARGUMENT.match(text, call.end())
        argument = found[0] if found is not None else ""
        if _HOST.search(argument):
            continue
        if _MAKES.search(argument):
            return True
        before = text.rfind("\n", 0, call.end())  # `x = torch.tensor(x)` assigns later
        operands = map(_NAME.match, map(str.strip, _OPERATOR.split(argument)))
        names += [(name[1], before) for name in operands if name is not None]
    assigned = {name: _assigned(text, name) for name in dict(names)}
    return any(_may_be_tensor(text, name, assigned[name], before) for name, before in names)


def _assigned(text: str, name: str) -> list[int]:
    """Where the values begin that are assigned to a name, in order."""
    found = re.finditer(rf"{re.escape(name)}{_TO_VALUE}", text)  # begins with a literal, which is quick
    return [match.end() for match in found if _is_target(text, match.start())]


def _is_target(text: str, at: int) -> bool:
    """Whether only blanks and other targets are before a place in its line."""
    line = text.rfind("\n", max(0, at - _TARGETS), at) + 1 or max(0, at - _TARGETS)
    before = text[line:at].strip()
    return not before or (before.endswith(",") and _TARGET.fullmatch(before) is not None)


def _may_be_tensor(text: str, name: str, places: list[int], before: int) -> bool:
    if not name.startswith("self."):
        behind = bisect_left(places, before)
        places = places[max(0, behind - 1) : behind]
    return any(_makes(text, place) for place in places)


def _makes(text: str, start: int) -> bool:
    value = text[start : start + _VALUE].partition("\n")[0]
    return _MAKES.search(value) is not None and _HOST.search(value) is None
