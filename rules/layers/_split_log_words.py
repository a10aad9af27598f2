"""Words without which a text computes no logarithm of probabilities; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import behind, closing_bracket, is_in_name, places

#: A function, method or layer that gives probabilities.
_PROBABILITY = re.compile(r"(?<!log_)softmax\(|(?<!log)sigmoid\(")
#: Layers, which may be called under any name, and losses of probabilities.
_ANY = ("Softmax(", "Sigmoid(", "binary_cross_entropy(", "BCELoss")
#: A name, to which a small number is added, or another name for one.
_SUM = re.compile(r"\s*([\w.-]{1,80})(?:\s*\+\s*([\w.-]{1,80}))?\s*\Z")
#: Probabilities that are limited.
_LIMITED = re.compile(r"\bcl(?:amp(?:_min)?|ip)\(")
_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_NAME = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\Z")
#: A function that may return the logarithm of what it is given.
_HELPER = re.compile(r"def \w*log\w*\([^\n]*\n\s+return [^\n]*(?:torch\.log\(|\.log\(\))")
#: What follows a name to which a value is assigned.
_VALUE = re.compile(r"\s{0,3}(?::[^=\n]{0,80})?=(?!=)")
_ARGUMENT = 600  #: characters of an argument or value


def takes_logarithms(text: str) -> bool:
    """Whether a logarithm may be of probabilities: of a call that gives them, or of a name for its result."""
    if any(word in text for word in _ANY) or (_HELPER.search(text) and _PROBABILITY.search(text)):
        return True
    return any(_is_of_probabilities(text, operand) for operand in _operands(text))


def _operands(text: str) -> list[str]:
    """What logarithms are of: the argument of ``torch.log(p)``, and what is before ``.log()``."""
    found = []
    for at in places(text, "torch.log("):
        start = at + len("torch.log(")
        end = closing_bracket(text, start, _ARGUMENT)
        found.append(text[start : start + _ARGUMENT if end is None else end])
    for at in places(text, ".log()"):
        before = text[max(0, at - _ARGUMENT) : at]
        name = _NAME.search(before[-80:])
        found.append(before if name is None else name[1])
    return found


def _is_of_probabilities(text: str, operand: str) -> bool:
    if _PROBABILITY.search(operand) is not None:
        return True
    added = _SUM.match(operand)
    limited = _IDENTIFIER.findall(operand) if added is None and _LIMITED.search(operand) else ()
    return any(
        not is_in_name(text, at) and _PROBABILITY.search(text, value.end(), value.end() + _ARGUMENT) is not None
        for name in dict.fromkeys(added.groups() if added is not None else limited)
        if name is not None and name.isidentifier()
        for at, value in behind(text, name, _VALUE)
    )
