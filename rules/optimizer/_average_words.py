"""Words without which a text updates no average of parameters in a loop; no heavy imports."""

from __future__ import annotations

import re

_LOOP = re.compile(r"^[ \t]*(?:async )?for ([^\n]*)", re.MULTILINE)
_PARAMETERS = re.compile(r"param|state_dict|shadow|weights|buffers", re.IGNORECASE)
_BLEND = re.compile(r"\b1(?:\.0*)?\s*-|minus|lerp", re.IGNORECASE)
_BODY = 700  #: characters of a loop


def averages_in_loop(text: str) -> bool:
    """Whether one of two weights that add up to 1, or ``lerp``, follows a loop over parameters closely."""
    return any(
        _PARAMETERS.search(loop[1]) and _BLEND.search(text, loop.end(), loop.end() + _BODY)
        for loop in _LOOP.finditer(text)
    )
