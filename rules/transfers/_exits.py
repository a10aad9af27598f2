"""Where data leaves the device: calls and attributes that give a number, an array or a tensor on the CPU."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.syntax.dotted import bare

_METHODS = frozenset({"item", "tolist", "numpy", "cpu", "size", "dim", "numel", "nelement"})
_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda"})
_FUNCTIONS = frozenset(
    f"builtins.{name}" for name in "float int len str bool round isinstance range type id getattr hasattr".split()
)
#: Methods that give the same data, on the CPU or without a graph.
_COPYING = frozenset({"cpu", "detach", "numpy"})
_LIBRARIES = ("numpy.", "math.", "sklearn.")


def leaves_device(forest: Forest, part: cst.CSTNode) -> bool:
    """Whether the value of ``part`` is not on the device, whatever it is computed from."""
    if type(part) is cst.Call:
        if isinstance(part.func, cst.Attribute) and part.func.attr.value in _METHODS:
            return True
        name = forest.name_of(part.func) or ""
        return name in _FUNCTIONS or name.startswith(_LIBRARIES)
    if type(part) is cst.Attribute:
        return part.attr.value in _ATTRIBUTES
    return type(part) is cst.Lambda


def copied(node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor that ``node`` is a copy of on the CPU: ``x`` of ``x.detach().cpu().numpy()``; else ``node`` itself."""
    found = bare(node, _COPYING)
    return found if bare(node, _COPYING - {"cpu"}) is not found else node
