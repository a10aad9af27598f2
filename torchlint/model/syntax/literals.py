"""The values of literals: most are written many times, and in an editor again after each change."""

from __future__ import annotations

from ast import literal_eval
from functools import lru_cache
from typing import Any

import libcst as cst


def value_of(node: cst.SimpleString | cst.Integer | cst.Float) -> Any:
    """The value of a literal, as its ``evaluated_value``. Raises ValueError and OverflowError."""
    return _evaluated(node.value)


@lru_cache(maxsize=10_000)
def _evaluated(text: str) -> object:
    return literal_eval(text)


def is_constant_name(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is ``True``, ``False`` or ``None``."""
    return isinstance(node, cst.Name) and node.value in ("True", "False", "None")


def is_true(node: cst.CSTNode | None) -> bool:
    """Whether ``node`` is ``True``."""
    return isinstance(node, cst.Name) and node.value == "True"


def is_none(node: cst.CSTNode | None) -> bool:
    """Whether ``node`` is ``None``."""
    return isinstance(node, cst.Name) and node.value == "None"


def is_zero(node: cst.CSTNode | None) -> bool:
    """Whether ``node`` is ``0`` or ``0.0``."""
    return isinstance(node, (cst.Integer, cst.Float)) and value_of(node) == 0


def asked_for_none(test: cst.BaseExpression, operator: type[cst.Is | cst.IsNot]) -> cst.BaseExpression | None:
    """``x`` of ``x is None``, with `cst.Is`, or of ``x is not None``, with `cst.IsNot`; None of other conditions."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    asked = test.comparisons[0]
    return test.left if isinstance(asked.operator, operator) and is_none(asked.comparator) else None
