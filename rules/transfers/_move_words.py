"""Words without which a text contains no move of a newly created tensor; without heavy imports."""

from __future__ import annotations

import re

_FACTORY = (
    r"\b(?:zeros|ones|empty|full|eye|arange|linspace|logspace|rand|randn|randint|randperm|"
    r"(?:Bool|Byte|Char|Double|Float|Half|Int|Long|Short)?Tensor)\("
)
_MADE = re.compile(_FACTORY)
#: A line that binds the result of a factory function.
_BOUND = re.compile(r"^(?P<name>[^=\n]*)=(?!=)[^\n]*?" + _FACTORY, re.MULTILINE)
_METHODS = (".cuda(", ".to(", ".type(", ".type_as(")
#: A method that moves, but not ``.to(torch.float16)``, ``.to(dtype=x.dtype)`` or ``.type(torch.FloatTensor)``
_MOVE = re.compile(
    r"\.(?:cuda|type_as|to(?!\(\s*(?:dtype=[^(),]{0,80}|torch\.\w{1,80}|[\w.]{0,80}dtype)\))"
    r"|type(?!\(\s*(?:torch\.(?!cuda\b)|[\"'])))\("
)
_REBINDS = re.compile(r"\b(?P<name>\w+) *= *(?P=name)$")
#: Functions that move their argument, by their names.
_MOVERS = r"\w*(?:cuda|gpu|device|to_|_to)\w*"
_GIVEN = re.compile(rf"\b{_MOVERS}\(\s*$", re.IGNORECASE)
_PASSED = re.compile(rf"\b(?P<name>\w+) *= *(?:\w+\.)*{_MOVERS}\((?P=name)[,)]", re.IGNORECASE)
_BINDS = re.compile(r"\b(?P<name>\w+) *= *$")
_OF_TORCH = re.compile(r"torch\.(?:zeros|ones|empty|full|eye|arange|linspace|logspace|randn?|randint|randperm)\(")

_CHAIN = 340  #: characters of a factory call, its arguments and the methods before the move
_NEAR = 1000  #: characters between a factory call and the statement that moves its result
_WORD = 60


def moves_created_tensors(text: str) -> bool:
    """Whether a move follows a factory call: in one expression, or closely and under one name. Linear in the text."""
    return any(_is_moved_by(method, text) for method in _METHODS) or _is_passed(text)


def _is_moved_by(method: str, text: str) -> bool:
    at = text.find(method)
    while at >= 0:
        if _MOVE.match(text, at) and (_is_chained(text, at) or _is_rebound(text, at)):
            return True
        at = text.find(method, at + 1)
    return False


def _is_chained(text: str, at: int) -> bool:
    """Whether the expression before a method begins with a factory call without a device."""
    before = text[max(0, at - _CHAIN) : at].rstrip(" \t\r\n\\")
    if not before.endswith(")"):
        return False
    begin = max(before.rfind("device="), before.rfind("\n\n")) + 1
    return _MADE.search(before, begin) is not None


def _is_rebound(text: str, at: int) -> bool:
    """Whether a statement ``x = x.to(...)`` follows ``x = torch.zeros(...)`` or ``x = zeros.scatter_(...)`` closely."""
    found = _REBINDS.search(text, max(0, at - _WORD), at)
    if found is None:
        return False
    before = text[max(0, at - _NEAR) : at]
    if ".scatter_(" in before:
        return _MADE.search(before) is not None
    return any(made["name"].strip() == found["name"] for made in _BOUND.finditer(before))


def _is_passed(text: str) -> bool:
    """Whether the result of a factory is passed, directly or by name, to a function that moves by its name."""
    for made in _OF_TORCH.finditer(text):
        begin = made.start()
        if _GIVEN.search(text, max(0, begin - _WORD), begin):
            return True
        bound = _BINDS.search(text, max(0, begin - _WORD), begin)
        if bound and any(item["name"] == bound["name"] for item in _PASSED.finditer(text, begin, begin + _NEAR)):
            return True
    return False
