"""Words of code that freezes parameters, or chooses those to update, in a way that is not followed."""

from __future__ import annotations

import re

#: What takes parameters from anywhere.
_CHOOSING_WORDS = "add_param_group param_groups.append functional_call vmap".split()
_CHOOSES = re.compile(r"add_param_group|param_groups\.append|functional_call|\bvmap\b")
_FREEZING_WORDS = ("requires_grad", "autograd.grad", "freeze", "frozen", "toggle_grad")
#: A keyword of a call that makes a tensor, ``Variable(images, requires_grad=False)``, freezes no parameter.
_FREEZES = re.compile(
    r"requires_grad(?!\s*=\s*(?:True|False)\s*[,)])|autograd\.grad\b|fr(?:ee|o)ze(?!n=True)|toggle_grad"
)
_PARAMETER = re.compile(r"\bParameter\(")


def mentions_freezing(text: str) -> bool:
    """Whether a text has one of the words that the other functions look for, be it in a comment."""
    return any(word in text for word in (*_FREEZING_WORDS, *_CHOOSING_WORDS))


def chooses_parameters(code: str) -> bool:
    """Whether code without comments may update any parameters of the program, in a way that is not followed."""
    return any(word in code for word in _CHOOSING_WORDS) and _CHOOSES.search(code) is not None


def freezes_parameters(code: str) -> bool:
    """Whether code without comments may freeze parameters; code that makes a parameter itself may as well."""
    if not any(word in code for word in _FREEZING_WORDS):
        return False
    return _FREEZES.search(code) is not None or ("requires_grad" in code and _PARAMETER.search(code) is not None)
