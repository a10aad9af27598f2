"""Words without which a text passes no tensor to ``torch.tensor``; no heavy imports."""

from __future__ import annotations

import re

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
    return any(_is_tensor(text, call.end()) for call in _CALL.finditer(text))


def _is_tensor(text: str, start: int) -> bool:
    found = _ARGUMENT.match(text, start)
    argument = found[0] if found is not None else ""
    if _HOST.search(argument):
        return False
    if _MAKES.search(argument):
        return True
    name = _NAME.match(argument)
    if name is None:
        return False
    assigned = re.compile(rf"(?<!\w){re.escape(name[1])}(?!\w)[\w, ]{{0,40}}(?::[^=\n]{{0,40}})?=(?!=)")
    places = [place.end() for place in assigned.finditer(text)]
    if not name[1].startswith("self."):
        before = text.rfind("\n", 0, start)  # `x = torch.tensor(x)` assigns later
        places = [place for place in places if place < before][-1:]
    return any(_makes(text, place) for place in places)


def _makes(text: str, start: int) -> bool:
    value = text[start : start + _VALUE].partition("\n")[0]
    return _MAKES.search(value) is not None and _HOST.search(value) is None
