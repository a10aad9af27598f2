"""Words without which a text copies no constant to a device; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import closing_bracket

_FACTORY = re.compile(r"(?<!\w)(?:as_)?tensor\(|Tensor\(|asarray\(")
#: Methods behind a factory, up to one that moves.
_MOVED = re.compile(
    r"(?:\s*\)|\s*\.\w+(?:\([^()]{0,80}(?:\([^()]{0,80}\)[^()]{0,80}){0,3}\))?|\[[^\]\n]{0,40}\]){0,6}?"
    r"\s*\.(?:to|cuda|type_as)\("
)
#: ``self.config.mean`` and ``batch.size``; ``self.mean`` and ``math.pi`` may be constants.
_ATTRIBUTE = re.compile(r"\bself\.\w+\.\w|(?<![\w.])(?!(?:np|numpy|math|torch|self)\.)[a-z_]\w*\.[a-z_]")
_NAME = re.compile(r"(?<![\w.\"'])[a-z_]\w*(?![\w\"'])")
_KNOWN = frozenset(
    "self float int bool complex list tuple range len sum min max round abs sorted math np numpy torch for in".split()
)
_PART = re.compile(r"[,()\[\]{}]")
_LITERAL = r"(?:[-\[(\d.]|(?:float|math|np|numpy|torch|True|False|list|tuple|range)\b)"
_ARGUMENTS = 600  #: characters of the arguments of a factory


def uploads_data(text: str) -> bool:
    """Whether a tensor of given data gets a device, or is moved in the same expression."""
    return any(_is_uploaded(text, factory.end()) for factory in _FACTORY.finditer(text))


def _is_uploaded(text: str, start: int) -> bool:
    end = closing_bracket(text, start, _ARGUMENTS)
    given = text[start : start + _ARGUMENTS if end is None else end]
    moved = "device" in given or (end is not None and _MOVED.match(text, end + 1) is not None)
    return moved and _may_be_constant(text, given)


def _may_be_constant(text: str, given: str) -> bool:
    """Whether the data may be the same at every call: no attribute of an object, and no name but of literals."""
    data = _first(given)
    if "finfo" in data or "iinfo" in data:
        return True
    if _ATTRIBUTE.search(data):
        return False
    names = set(_NAME.findall(data)) - _KNOWN
    return all(re.search(rf"\b{name}\b[^=\n]{{0,40}}=\s*{_LITERAL}|\bfor {name} in", text) for name in names)


def _first(given: str) -> str:
    """The first of some arguments."""
    depth = 0
    for found in _PART.finditer(given):
        if found[0] == "," and depth == 0:
            return given[: found.start()]
        depth += {",": 0}.get(found[0], 1 if found[0] in "([{" else -1)
    return given
