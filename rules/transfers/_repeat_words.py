"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.loop_words import loop_around
from torchlint.source.lexemes import is_in_name, places

#: The name before a move.
_NAME = re.compile(r"\b[A-Za-z_][\w.]*\Z")
#: The arguments of a move to another number format only.
_FORMAT = re.compile(r"(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\)")
_LONGEST = 200  #: characters of a name


def moves_repeatedly(text: str) -> bool:
    """Whether a statement in a loop moves a module, or a move takes what a function of torch has made."""
    makers = [text[max(0, at - _LONGEST) : at] for at in places(text, " = torch.")]
    made: dict[str, bool] = {}
    for at in places(text, ".to(", ".cuda("):
        found = _NAME.search(text, max(0, at - _LONGEST), at)
        if found is None or _FORMAT.match(text, text.index("(", at) + 1):
            continue
        name = found[0]
        if name not in made:
            made[name] = any(maker.endswith(name) for maker in makers) and f"{name} = {name}." not in text
        if made[name] and name.startswith("self."):
            return True
        start = text.rfind("\n", 0, found.start()) + 1
        before = text[start : found.start()].strip()
        line = text[start : text.find("\n", start) % (len(text) + 1)].rstrip()
        alone = not before and line.endswith(")")
        assigned = before == f"{name} =" and _is_called(text, name)
        if (made[name] or assigned or alone) and loop_around(text, found.start()) is not None:
            return True
    return False


def _is_called(text: str, name: str) -> bool:
    """Whether ``name`` is called, as a module is, and not only as a part of a longer name."""
    return any(not is_in_name(text, at) and text[at - 1 : at] != "." for at in places(text, f"{name}("))
