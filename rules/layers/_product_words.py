"""Words without which a text does not multiply the weights of an attention with values only; no heavy imports."""

from __future__ import annotations

import re

_SOFTMAX = re.compile(r"softmax\(|[sS]oftmax\b")
_PRODUCT = re.compile(r"matmul|bmm|einsum| @ |@ ")
_NEAR = 1500  #: characters between a product and the softmax
_REST = 4000  #: characters of a function behind the softmax
#: A statement that gives a softmax a name.
_NAMED = re.compile(r"[ \t]*([A-Za-z_]\w*)[ \t]*=[ \t]*[\w.]*[sS]oftmax\(")
#: The next function, at which this one has ended.
_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def\b", re.MULTILINE)
_RETURN = re.compile(r"\breturn\b([^\n]*)")
_WORD = re.compile(r"\w+")


def multiplies_weights(text: str) -> bool:
    """Whether two matrix products are close to a softmax, that of the scores and that of its result, its only use."""
    return any(
        len(_PRODUCT.findall(text, max(0, found.start() - _NEAR), found.end() + _NEAR)) > 1
        and not _are_returned(text, found.start())
        for found in _SOFTMAX.finditer(text)
    )


def _are_returned(text: str, at: int) -> bool:
    """Whether the function around a softmax gives it a name and returns that, and does not multiply it in its place."""
    start = text.rfind("\n", 0, at) + 1
    named = _NAMED.match(text, start)
    if named is None or named.end() < at:
        return False
    function = _FUNCTION.search(text, at, at + _REST)
    rest = text[named.end() : at + _REST if function is None else function.start()]
    name = named[1]
    again = re.compile(rf"(?<![\w.]){name}\s*(?:,[^=\n]*)?=(?!=)([^\n]*)")
    if any("drop" not in value[1] for value in again.finditer(rest)):
        return False  # of another tensor
    returned = (found[1] for found in _RETURN.finditer(rest) if _PRODUCT.search(found[1]) is None)
    return any(name in _WORD.findall(line) for line in returned)
