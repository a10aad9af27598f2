"""The last part of a dotted name."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.tree import dotted_name


def last_part(name: str) -> str:
    """``c`` of ``a.b.c``."""
    return name.rpartition(".")[2]


def last_name(node: cst.CSTNode | None) -> str:
    """``c`` for the expression ``a.b.c``; "" for anything but a dotted name."""
    return last_part(dotted_name(node) or "")
