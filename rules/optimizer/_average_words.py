"""Words without which a text updates no average of parameters in a loop; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import in_lines

_LOOP = re.compile(r"([ \t]*)(?:async )?for ([^\n]*)")
#: What a loop over parameters iterates over, and words in its line.
PARAMETERS = re.compile(r"(parameters|buffers|state_dict)\(|param(eter)?s|param_|shadow|weights", re.IGNORECASE)
_PARAMETERS = re.compile(r"param|_dict|shadow|weights|buffers", re.IGNORECASE)
#: What a function that averages, or its class, is called where no call of it is seen.
NAMES = re.compile(
    r"EMA|(^|_)ema(_|$)|Ema(?![a-z])|(?i:exponential|polyak|(moving|running|weight|parameter)_?averag|soft_?(update|sync)|momentum_update)"
)
#: Parameters of such functions.
WEIGHTS = frozenset({"tau", "decay", "ema_decay", "polyak"})
_BLEND = re.compile(r"\b1(?:\.0*)?\s*-|minus|lerp|(?:mul_\(|\*)\s*0?\.9|\b0?\.9\d*\s*\*", re.IGNORECASE)
#: A function that is called for each parameter, and averages it.
CALLED = re.compile(r"(?:ema|average|avg)\w{0,20}(?:\.\w{1,40})?\(", re.IGNORECASE)
_BODY = 700  #: characters of a loop
_BEFORE = 300  #: characters before a loop, where the names of its parameters may be bound
_HEAD = 120  #: characters behind the first row of a loop, whose head may go on there


def averages_in_loop(text: str) -> bool:
    """Whether a loop over parameters has one of two weights that add up to 1, or ``lerp``, or calls what averages.

    It reads no gradients.
    """
    return any(_names_parameters(text, loop) and _averages(text, loop) for loop in in_lines(text, "for ", _LOOP))


def _names_parameters(text: str, loop: re.Match[str]) -> bool:
    start = max(loop.start() - _BEFORE, 0)
    return _PARAMETERS.search(text, start, loop.end() + _HEAD) is not None


def _averages(text: str, loop: re.Match[str]) -> bool:
    body = text[loop.end() : loop.end() + _BODY]
    behind = re.search(rf"^[ \t]{{0,{len(loop[1])}}}[^\s)\]}}]", body, re.MULTILINE)  # not the end of the head
    if behind is not None:
        body = body[: behind.start()]
    blends = _BLEND.search(loop[2] + body) is not None or CALLED.search(body) is not None
    return blends and ".grad" not in body
