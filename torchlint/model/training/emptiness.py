"""Conditions that ask whether there is something to work on: ``if len(boxes) > 0:``, ``if mask.any():``."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.semantics.reaching import Reaching
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.literals import is_none

#: Methods that count something, or ask for it.
_COUNTING = frozenset({"numel", "nelement", "sum", "any", "max", "nonzero", "count_nonzero"})
#: Names of what a step works on, by which it is counted; not of the steps.
_COUNTS = re.compile(
    r"(?!.*(step|iter|epoch|batch|update|worker|gpu|proc|rank|world|call|accum|skip|fail|bad|miss))"
    r"(((n|num|number)_|num(?=[A-Z])).*|n[btgl]|.*(_num|_cnt|_count))",
    re.IGNORECASE,
)


def has_work(branch: cst.If | cst.IfExp, part: cst.CSTNode, reaching: Reaching) -> bool:
    """Whether ``part`` of ``branch`` runs whenever there is something to work on."""
    asked = _asks(branch.test, reaching)
    return asked is not None and part is (branch.body if asked else branch.orelse)


def _asks(test: cst.BaseExpression, reaching: Reaching) -> bool | None:
    """True if a test is true of something, False if it is true of nothing, None if it asks for something else."""
    if isinstance(test, cst.BooleanOperation):
        left, right = _asks(test.left, reaching), _asks(test.right, reaching)
        return left if left is right else None
    if isinstance(test, cst.UnaryOperation):
        asked = _asks(test.expression, reaching) if isinstance(test.operator, cst.Not) else None
        return None if asked is None else not asked
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return True if isinstance(test, cst.Call) and _counts(test, reaching) else None
    operator, bound = test.comparisons[0].operator, test.comparisons[0].comparator
    if is_none(bound) and isinstance(test.left, cst.Name):
        return not isinstance(operator, cst.Is) if isinstance(operator, (cst.Is, cst.IsNot)) else None
    if not isinstance(bound, (cst.Integer, cst.Float)) or not _counts(test.left, reaching):
        return None
    if float(bound.value) == 0:
        if isinstance(operator, (cst.Equal, cst.LessThanEqual)):
            return False
        return True if isinstance(operator, (cst.GreaterThan, cst.NotEqual)) else None
    if bound.value == "1":
        return (
            False
            if isinstance(operator, cst.LessThan)
            else True
            if isinstance(operator, cst.GreaterThanEqual)
            else None
        )
    return None


def _counts(node: cst.BaseExpression, reaching: Reaching) -> bool:
    """``len(x)``, ``x.shape[0]``, ``x.numel()``, ``mask.sum().item()``, ``num_boxes``, or a name of one of these."""
    while (
        isinstance(node, cst.Call)
        and called_name(node) in ("item", "float", "int")
        and isinstance(node.func, cst.Attribute)
    ):
        node = node.func.value
    if isinstance(node, cst.Call):
        name = called_name(node)
        if name == "size":
            return len(node.args) == 1
        return name in _COUNTING or (name == "len" and isinstance(node.func, cst.Name))
    if isinstance(node, cst.Subscript):
        size = node.value.func if isinstance(node.value, cst.Call) and not node.value.args else node.value
        return isinstance(size, cst.Attribute) and size.attr.value == ("shape" if size is node.value else "size")
    if isinstance(node, (cst.Name, cst.Attribute)) and _COUNTS.fullmatch(last_name(node)) is not None:
        return True
    value = reaching.assigned(node)
    return isinstance(value, (cst.Call, cst.Subscript)) and _counts(value, reaching)
