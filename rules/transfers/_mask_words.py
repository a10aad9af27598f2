"""Words without which a text selects nothing by a mask for a loss; no heavy imports."""

from __future__ import annotations

import re
from collections import Counter

from torchlint.rule.tensor_words import parameters
from torchlint.source.lexemes import behind, is_in_name

#: Methods that return the same items.
COPYING = frozenset(
    "detach clone to type type_as float double half long int contiguous view reshape flatten squeeze unsqueeze".split()
)
#: Methods of a mask that return one, of another shape.
SHAPING = frozenset("view reshape flatten expand expand_as repeat squeeze unsqueeze detach".split())
#: An index that is a name, or a comparison; all of the other dimensions may follow.
_INDEX = re.compile(
    r"\[\s*(~?\w+(?=\s*\]|,\s*:\s*\])|[^\[\]\n:,'\"]{1,80}(?:[=!]=|[<>])[^\[\]\n:,'\"]{1,80}|[^\[\]\n:,'\"]{1,80}\))\s*(?:,\s*:\s*)?\]"
)
#: An index that repeats a mask, or what it compares, for other dimensions.
_REPEATED = re.compile(r"\[\s*\w+\.(?:view|reshape|unsqueeze)\([^\[\]\n]{1,60}\)\.(?:repeat|expand)")
_VALUE = re.compile(r"\s{0,3}(?::[^=\n]{1,60})?=(?!=)([^\n]*)")
_COMPARED = re.compile(r"[=!]=|[<>]|\.(?:bool|eq|ne|gt|ge|lt|le|isfinite|isnan|logical_|expand_as)|torch\.|[~&|]")


def selects_for_loss(text: str) -> bool:
    """Whether two tensors are indexed with the same comparison, or with the same name of one, maybe repeated."""
    if (".repeat(" in text or ".expand" in text) and _REPEATED.search(text):
        return True
    counted = Counter(found[1] for found in _INDEX.finditer(text))
    return any(number > 1 and _may_be_mask(text, index) for index, number in counted.items())


def _may_be_mask(text: str, index: str) -> bool:
    name = index.lstrip("~")
    if not name.isidentifier():
        return _COMPARED.search(index) is not None
    return (
        name != index
        or name in parameters(text)
        or any(
            _COMPARED.search(value[1]) is not None or value[1].rstrip().endswith("(")
            for at, value in behind(text, name, _VALUE)
            if not is_in_name(text, at)
        )
    )
