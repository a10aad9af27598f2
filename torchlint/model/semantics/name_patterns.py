"""Names that a program builds as strings: ``"models." + name``, ``f"load_{task}"``."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.source.module_patterns import ANY, MAX_LENGTH, MAX_UNKNOWN, regex_of

_PLACE = re.compile(r"%[sd]|\{[^{}]*\}")


def pattern_of(node: cst.BaseExpression) -> str:
    """The string that ``node`` is, with a ``*`` for each part that is not a literal."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else ANY
    if isinstance(node, cst.FormattedString):
        return _merged("".join(item.value if isinstance(item, cst.FormattedStringText) else ANY for item in node.parts))
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return _filled(node.left)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return _filled(node.func.value)
    parts: list[str] = []
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        parts.append(_literal(node.right))
        node = node.left
    return _merged("".join((_literal(node), *reversed(parts))))


def matches(pattern: str, name: str) -> bool:
    """Whether ``name`` may be the string of a pattern."""
    if ANY not in pattern:
        return pattern == name
    if pattern.count(ANY) > MAX_UNKNOWN or len(name) > MAX_LENGTH:
        return False
    return re.fullmatch(regex_of(pattern), name) is not None


def _literal(node: cst.BaseExpression) -> str:
    return pattern_of(node) if isinstance(node, (cst.SimpleString, cst.FormattedString)) else ANY


def _filled(node: cst.BaseExpression) -> str:
    """``models.*`` for ``"models.%s"``."""
    return _merged(_PLACE.sub(ANY, _literal(node)))


def _merged(pattern: str) -> str:
    return re.sub(r"\*+", ANY, pattern)
