"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.loop_words import loop_around

#: A move, unless its only argument is a number format.
_MOVE = re.compile(r"\b([A-Za-z_][\w.]*)\.(?:to|cuda)\((?!(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\))")


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
        if (made[name] or assigned or alone) and loop_around(text, move.start()) is not None:
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
