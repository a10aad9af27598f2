"""Words without which a text contains no call of ``nn.MultiheadAttention`` for its first result; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import arguments, behind, places

_CALL = r"[ \t]*=[ \t]*[\w.]{1,80}(?:\[[^\]\n]{0,60}\][\w.]{0,60}){0,2}\("
#: `, _ = self.attn(`
_UNPACKED = re.compile(rf",[ \t]*\*?\w{{1,60}}[ \t]*[)\]]?{_CALL}")
_ASSIGNED = re.compile(_CALL)
_NAME = re.compile(r"\w{1,60}\Z")
_BRACKET = re.compile(r"[()\[\]{}]")
_KEYWORD = re.compile(r"(\w+)\s*=(?!=)")
#: The parameters of the layer that do not ask for weights.
_KEYWORDS = frozenset({"query", "key", "value", "key_padding_mask", "attn_mask"})
_FEWEST = 3  #: arguments
_ARGUMENTS = 600  #: characters of the arguments


def uses_first_result(text: str) -> bool:
    """Whether a call with arguments as the layer takes them may be used for its first result only."""
    return (
        any(_fits(text, found.end()) for found in _UNPACKED.finditer(text))
        or any(_fits(text, _opened(text, at)) for at in places(text, ")[0]"))
        or any(_is_called(text, name) for name in _indexed(text))
    )


def _fits(text: str, start: int) -> bool:
    """Whether arguments, which begin at a place, are queries, keys, values, and masks at most."""
    given = arguments(text, start, _ARGUMENTS)
    if given is None or len(given) < _FEWEST:
        return False
    keywords = [found[1] for item in given if (found := _KEYWORD.match(item)) is not None]
    return _KEYWORDS.issuperset(keywords) and not any(item.startswith("*") for item in given)


def _opened(text: str, at: int) -> int:
    """Where the arguments begin that a bracket closes; the place itself if that is too far away."""
    depth = 0
    for bracket in reversed(list(_BRACKET.finditer(text, max(0, at - _ARGUMENTS), at + 1))):
        depth += -1 if bracket[0] in "([{" else 1
        if depth == 0:
            return bracket.end()
    return at


def _indexed(text: str) -> set[str]:
    """The names of which the first item is taken."""
    found = (_NAME.search(text, max(0, at - 60), at) for at in places(text, "[0]"))
    return {name[0] for name in found if name is not None}


def _is_called(text: str, name: str) -> bool:
    """Whether the result of a call is assigned to a name."""
    return any(_fits(text, found.end()) for _, found in behind(text, name, _ASSIGNED))
