"""Dotted names, and their last parts."""

from __future__ import annotations

import libcst as cst


def last_part(name: str) -> str:
    """``c`` of ``a.b.c``."""
    return name.rpartition(".")[2]


def last_name(node: cst.CSTNode | None) -> str:
    """``c`` for the expression ``a.b.c``; "" for anything but a dotted name."""
    return last_part(dotted_name(node) or "")


def called_name(call: cst.Call) -> str:
    """``mul_`` for ``batch[0].mul_(2)``, ``f`` for ``f()``; "" where what is called has no name of its own."""
    func = call.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def dotted_name(node: cst.CSTNode | None) -> str | None:
    """``a.b.c`` for a Name or a chain of Attributes, else None."""
    parts: list[str] = []
    while type(node) is cst.Attribute:  # `isinstance` would be ten times as slow, and it is asked most of all
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))
