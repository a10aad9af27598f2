"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re
import string
from functools import lru_cache

from torchlint.rule.loop_words import loop_around
from torchlint.source.lexemes import places

#: Characters of a dotted name.
_OF_NAMES = f"{string.ascii_letters}{string.digits}_."
#: The arguments of a move to another number format only.
_FORMAT = re.compile(r"(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\)")
_CALLED = re.compile(r"(?<![\w.])[\w.]+(?=\()")
_WHOLE = re.compile(r"(?<![\w.])(?:self\.)?\w+(?=\[|\.\w+\()")
_LONGEST = 200  #: characters of a name


def moves_repeatedly(text: str) -> bool:
    """Whether a loop moves a module or what a function of torch has made, or a move takes an attribute."""
    made = {_name_before(text, at) for at in places(text, " = torch.")}
    for at in places(text, ".to(", ".cuda("):
        if _FORMAT.match(text, text.index("(", at) + 1):
            continue
        name = _name_before(text, at)
        if not name:
            wholes = _whole_before(text, at)
            if any(_is_kept(text, item) for item in wholes):
                return True
            if not wholes.isdisjoint(made) and loop_around(text, at) is not None:
                return True
            continue
        is_made = name in made and name not in _set_from_itself(text)
        if _is_kept(text, name):
            return True
        start = text.rfind("\n", 0, at) + 1
        before = text[start : at - len(name)].strip()
        line = text[start : text.find("\n", start) % (len(text) + 1)].rstrip()
        alone = not before and line.endswith(")")
        assigned = before == f"{name} =" and f"{name}(" in text and name in _called(text)
        if (is_made or assigned or alone) and loop_around(text, at) is not None:
            return True
    return False


def _is_kept(text: str, name: str) -> bool:
    """Whether an attribute is set to something that is not called, and not set from itself."""
    if not name.startswith("self.") or name in _set_from_itself(text) or name in _called(text):
        return False
    return name in _set(text)


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _set(text: str) -> frozenset[str]:
    """The names that are set."""
    return frozenset(_name_before(text, at) for at in places(text, " = ", ": torch.Tensor = "))


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _set_from_itself(text: str) -> frozenset[str]:
    """The names that are set to a method or part of what they name: ``x = x.float()``."""
    named = ((at, _name_before(text, at)) for at in places(text, " = "))
    return frozenset(name for at, name in named if text.startswith(f"{name}.", at + 3))


@lru_cache(maxsize=1)
def _called(text: str) -> frozenset[str]:
    """The names that are called, as modules are, and not only as parts of longer names."""
    return frozenset(_CALLED.findall(text))


def _whole_before(text: str, at: int) -> set[str]:
    """The names shortly before a place of which an expression may select elements or ask for another form."""
    before = text[max(0, at - _LONGEST) : at]
    return set(_WHOLE.findall(before)) if before.endswith((")", "]")) else set()


def _name_before(text: str, at: int) -> str:
    """The dotted name that ends at a place; empty if there is none."""
    before = text[max(0, at - _LONGEST) : at]
    return before[len(before.rstrip(_OF_NAMES)) :].lstrip(f"{string.digits}.")
