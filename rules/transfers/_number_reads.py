"""Numbers that are computed from a copy of a tensor on the CPU."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest

#: Methods of a copy on the CPU that compute a number, and others before them.
_REDUCING = frozenset({"sum", "mean"})
_BETWEEN = frozenset({"numpy", "float", "double", "long", "int", "view", "reshape", "flatten", "squeeze", "data"})
#: Functions that compute a number from an array.
_ARRAY_FUNCTIONS = frozenset({"numpy.sum", "numpy.mean", "numpy.average"})


def reduction(forest: Forest, copy: cst.Call) -> cst.Call | None:
    """The call that computes a number from ``copy``, a copy on the CPU, and only that: ``hits.cpu().sum()``."""
    whole: cst.CSTNode = copy
    while True:
        above = forest.tree.parent(whole)
        if isinstance(above, cst.Arg):
            call = forest.tree.parent(above)
            is_first = isinstance(call, cst.Call) and call.args[0] is above and len(call.args) == 1
            named = forest.name_of(call.func) if isinstance(call, cst.Call) and is_first else None
            return call if isinstance(call, cst.Call) and named in _ARRAY_FUNCTIONS else None
        if not isinstance(above, cst.Attribute):
            return None
        call = forest.tree.parent(above)
        if not isinstance(call, cst.Call) or call.func is not above:
            if above.attr.value != "data":
                return None
            whole = above
        elif above.attr.value in _REDUCING:
            return None if call.args else call
        elif above.attr.value in _BETWEEN:
            whole = call
        else:
            return None
