"""Environment variables that a program reads, and flags that are off unless one of them is set."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.names import Names
from torchlint.model.syntax.literals import is_constant_name

#: Functions that read a variable, with a default as their second argument.
READS = frozenset({"os.environ.get", "os.getenv"})
_CONVERSIONS = frozenset({"builtins.bool", "builtins.int"})


def is_off(names: Names, node: cst.BaseExpression) -> bool:
    """Whether an expression is false if no environment variable is set: ``os.environ.get("DEBUG", "0") == "1"``."""
    if isinstance(node, cst.BooleanOperation):
        sides = [is_off(names, side) for side in (node.left, node.right)]
        return all(sides) if isinstance(node.operator, cst.Or) else any(sides)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        compared = node.comparisons[0]
        if isinstance(compared.operator, cst.In) and isinstance(node.left, cst.SimpleString):
            return names.resolve(compared.comparator) == "os.environ"
        return isinstance(compared.operator, cst.Equal) and _differ(names, node.left, compared.comparator)
    if isinstance(node, cst.Call) and names.resolve(node.func) in _CONVERSIONS and len(node.args) == 1:
        return is_off(names, node.args[0].value)
    return _is_read(names, node) and _is_false(_default(names, node))


def _differ(names: Names, read: cst.BaseExpression, wanted: cst.BaseExpression) -> bool:
    """Whether a variable that is not set is not equal to a literal."""
    default, text = _default(names, read), _text(wanted)
    if not _is_read(names, read) or text is None:
        return False
    return default is None or is_constant_name(default) or _text(default) not in (None, text)


def _is_read(names: Names, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and bool(node.args) and names.resolve(node.func) in READS


def _default(names: Names, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What is read if the variable is not set; None without it."""
    if not isinstance(node, cst.Call) or not _is_read(names, node) or len(node.args) < 2:
        return None
    return node.args[1].value


def _is_false(default: cst.BaseExpression | None) -> bool:
    """Whether a default is meant as false: none, ``None``, ``False``, ``0``, ``""``, also ``"0"`` in ``int(...)``."""
    if default is None:
        return True
    if isinstance(default, cst.Name):
        return default.value in ("None", "False")
    return _text(default) in ("", "0")


def _text(node: cst.BaseExpression | None) -> str | None:
    """The text of a string or an integer, as it is written between the quotation marks; None of anything else."""
    return node.value.strip("\"'") if isinstance(node, (cst.SimpleString, cst.Integer)) else None
