"""What expressions in Python's own syntax tree name, and what they are parts of."""

from __future__ import annotations

import ast
from collections.abc import Collection


def dotted_name(node: ast.AST | None) -> str | None:
    """``a.b.c`` for a name or a chain of attributes, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else None


def root_of(node: ast.expr) -> str:
    """``a`` of ``a.b.c``; empty for other expressions."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def called_name(call: ast.Call) -> str:
    """``mul_`` of ``batch[0].mul_(2)``, ``f`` of ``f()``; "" where what is called has no name of its own."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def bare(
    node: ast.expr, methods: Collection[str], attributes: Collection[str] = (), *, items: bool = False
) -> ast.expr:
    """``x`` of ``x.data.detach().cpu()``: what these methods and attributes are of; with ``items`` also of ``x[0]``."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr in attributes:
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            node = node.func.value
        elif items and isinstance(node, ast.Subscript):
            node = node.value
        else:
            return node
