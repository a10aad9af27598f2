"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re

#: A move, unless its only argument is a number format.
_MOVE = re.compile(r"\b([A-Za-z_][\w.]*)\.(?:to|cuda)\((?!(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\))")
_LINES = 300  #: lines of a loop before a statement


def moves_repeatedly(text: str) -> bool:
    """Whether a statement in a loop moves a module, or a move takes what a function of torch has made."""
    made: dict[str, bool] = {}
    called: dict[str, bool] = {}
    for move in _MOVE.finditer(text):
        name = move[1]
        if name not in made:
            made[name] = f"{name} = torch." in text and f"{name} = {name}." not in text
            called[name] = _is_called(text, name)
        if made[name] and name.startswith("self."):
            return True
        start = text.rfind("\n", 0, move.start()) + 1
        before = text[start : move.start()]
        line = text[start : text.find("\n", start) % (len(text) + 1)].rstrip()
        assigned = before.strip() == f"{name} =" and called[name]
        alone = not before.strip() and line.endswith(")")
        if (made[name] or assigned or alone) and _is_in_loop(text, start, start + _indent(before)):
            return True
    return False


def _is_called(text: str, name: str) -> bool:
    """Whether ``name`` is called, as a module is, and not only as a part of a longer name."""
    at = text.find(f"{name}(")
    while at >= 0:
        before = text[at - 1 : at]
        if not (before.isalnum() or before in ("_", ".")):
            return True
        at = text.find(f"{name}(", at + 1)
    return False


def _is_in_loop(text: str, start: int, at: int) -> bool:
    """Whether a loop is around the line that begins at ``start``, by the indentation of lines."""
    indent = _indent(text[start:at])
    for _ in range(_LINES):
        if start == 0 or indent == 0:
            return False
        before = text.rfind("\n", 0, start - 1) + 1
        line, start = text[before:start], before
        if line.isspace() or _indent(line) >= indent:
            continue
        indent, words = _indent(line), line.split(None, 1)
        if words[0].startswith((")", "]", "}")):
            indent += 1  # the statement that ends here begins above, with the same indentation
        if words[0] in ("for", "while"):
            return True
        if words[0] in ("def", "class", "async"):
            return False
    return True


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
