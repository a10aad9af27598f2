"""Where a function hands control to other code and goes on later: generators and coroutines."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.tree import Tree


def suspension_in(tree: Tree, node: cst.CSTNode) -> cst.CSTNode | None:
    """The first ``yield``, ``await``, ``async for`` or ``async with`` in ``node`` that suspends its function."""
    function = tree.function_of(node)
    return next((part for part in tree.nodes_in(node) if _suspends(part) and tree.function_of(part) is function), None)


def _suspends(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.For, cst.With, cst.CompFor)):
        return node.asynchronous is not None
    return isinstance(node, (cst.Yield, cst.Await))
