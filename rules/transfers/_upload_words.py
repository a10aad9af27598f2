"""Words without which a text copies no constant to a device; no heavy imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import behind, closing_bracket, is_in_name, places

#: What makes a tensor of given data.
FACTORIES = ("tensor(", "Tensor(", "asarray(", "from_numpy(")
#: The part of a name before ``tensor(``.
_BEGINNING = re.compile(r"\w*\Z")
#: Methods behind a factory, up to one that moves.
_MOVED = re.compile(
    r"(?:\s*\)|\s*\.\w+(?:\([^()]{0,80}(?:\([^()]{0,80}\)[^()]{0,80}){0,3}\))?|\[[^\]\n]{0,40}\]){0,6}?"
    r"\s*\.(?:to|cuda|type_as)\("
)
#: What the settings of a program are kept in.
_SETTINGS = r"(?:\w+_)?(?:args|cf|cfg|configs?|hparams|hps|opts?|options|settings)"
OPTIONS = re.compile(rf"(?:\bself\.)?\b_?(?:{_SETTINGS}|params|flags)\b", re.IGNORECASE)
#: ... as a part of another object: ``model.config``.
OPTIONS_PART = re.compile(_SETTINGS, re.IGNORECASE)
#: The beginning of a line that binds a name.
_BOUND = re.compile(r"[ \t]*(\w+) *=(?!=)")
#: A type in a conditional expression.
_CHOSEN = re.compile(r"\.cuda\.\w*Tensor\s+if\b|\belse\s+torch\.cuda\.\w*Tensor\b")
_TYPE = 24  #: characters of ``cuda.FloatTensor(``
_NEAR = 1000  #: characters between a factory and the move of what it makes
_ARGUMENTS = 600  #: characters of the arguments of a factory


def uploads_data(text: str) -> bool:
    """Whether a tensor of given data gets a device, or is moved in the same expression."""
    return any(_is_factory(text, at) and _is_uploaded(text, text.index("(", at) + 1) for at in places(text, *FACTORIES))


def _is_factory(text: str, at: int) -> bool:
    """Whether ``tensor(`` is not the end of another name, such as ``to_tensor(``."""
    if text[at] != "t":
        return True
    beginning = _BEGINNING.search(text[max(0, at - 4) : at])
    return beginning is None or beginning[0] in ("", "as_", "new_")


def _is_uploaded(text: str, start: int) -> bool:
    end = closing_bracket(text, start, _ARGUMENTS)
    given = text[start : start + _ARGUMENTS if end is None else end]
    of_cuda = "cuda." in text[max(0, start - _TYPE) : start] or _chooses_type(text)
    is_there = text.endswith(".new_tensor(", 0, start)
    moved = of_cuda or is_there or "device" in given or (end is not None and _MOVED.match(text, end + 1) is not None)
    return moved or _is_moved_later(text, start)


@lru_cache(maxsize=1)
def _chooses_type(text: str) -> bool:
    """Whether a condition decides which type a name is: ``torch.cuda.FloatTensor if cuda else torch.FloatTensor``."""
    return "cuda." in text and _CHOSEN.search(text) is not None


def _is_moved_later(text: str, start: int) -> bool:
    """Whether the line of a factory binds a name that a move closely follows, directly or behind other methods."""
    bound = _BOUND.match(text, text.rfind("\n", 0, start) + 1, start)
    if bound is None:
        return False
    nearby = text[start : start + _NEAR]
    return any(not is_in_name(nearby, at) for at, _ in behind(nearby, bound[1], _MOVED))
