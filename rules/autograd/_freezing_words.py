"""Words of programs that freeze parameters, or choose those to update, in a way that is not followed."""

from __future__ import annotations

import re

_WORDS = "requires_grad add_param_group param_groups.append autograd.grad functional_call vmap".split()
#: A keyword of a call that makes a tensor, ``Variable(images, requires_grad=False)``, freezes no parameter.
_FREEZES = re.compile(
    r"requires_grad(?!\s*=\s*(?:True|False)\s*[,)])|add_param_group|param_groups\.append|autograd\.grad\b"
    r"|functional_call|\bvmap\b"
)
_PARAMETER = re.compile(r"\bParameter\(")


def freezes_parameters(code: str) -> bool:
    """Whether code without comments may freeze parameters; code that makes a parameter itself may as well."""
    if not any(word in code for word in _WORDS):
        return False
    return _FREEZES.search(code) is not None or ("requires_grad" in code and _PARAMETER.search(code) is not None)
