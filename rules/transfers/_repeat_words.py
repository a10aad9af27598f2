"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re
import string

from torchlint.rule.loop_words import loop_around
from torchlint.source.lexemes import is_in_name, places

#: Characters of a dotted name.
_OF_NAMES = f"{string.ascii_letters}{string.digits}_."
#: The arguments of a move to another number format only.
_FORMAT = re.compile(r"(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\)")
_LONGEST = 200  #: characters of a name


def moves_repeatedly(text: str) -> bool:
    """Whether a statement in a loop moves a module, or a move takes what a function of torch has made."""
    makers = [text[max(0, at - _LONGEST) : at] for at in places(text, " = torch.")]
    made: dict[str, bool] = {}
    for at in places(text, ".to(", ".cuda("):
        name = _name_before(text, at)
        if not name or _FORMAT.match(text, text.index("(", at) + 1):
            continue
        if name not in made:
            made[name] = any(maker.endswith(name) for maker in makers) and f"{name} = {name}." not in text
        if made[name] and name.startswith("self."):
            return True
        start = text.rfind("\n", 0, at) + 1
        before = text[start : at - len(name)].strip()
        line = text[start : text.find("\n", start) % (len(text) + 1)].rstrip()
        alone = not before and line.endswith(")")
        assigned = before == f"{name} =" and _is_called(text, name)
        if (made[name] or assigned or alone) and loop_around(text, at) is not None:
            return True
    return False


def _name_before(text: str, at: int) -> str:
    """The dotted name that ends at a place; empty if there is none."""
    before = text[max(0, at - _LONGEST) : at]
    return before[len(before.rstrip(_OF_NAMES)) :].lstrip(f"{string.digits}.")


def _is_called(text: str, name: str) -> bool:
    """Whether ``name`` is called, as a module is, and not only as a part of a longer name."""
    return any(not is_in_name(text, at) and text[at - 1 : at] != "." for at in places(text, f"{name}("))
