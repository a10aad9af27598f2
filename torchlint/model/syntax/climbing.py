"""From a node to the nodes around it, together with the part of each that contains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

import libcst as cst

from torchlint.model.syntax.tree import Tree

_Node = TypeVar("_Node", bound=cst.CSTNode)


def climb(tree: Tree, node: cst.CSTNode, outer: cst.CSTNode | None = None) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The nodes around ``node``, innermost first, each with its child that is or contains ``node``.

    With ``outer``, only those inside of it.
    """
    child = node
    for above in tree.ancestors(node):
        if above is outer:
            return
        yield above, child
        child = above


def is_tested(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a condition depends on ``node``: the test of an ``if``, a loop, a conditional expression or an assert."""
    for above, child in climb(tree, node):
        if isinstance(above, (cst.If, cst.While, cst.IfExp, cst.Assert)):
            return child is above.test
        if isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return False
    return False


def nearest(tree: Tree, node: cst.CSTNode, *kinds: type[_Node]) -> _Node | None:
    """The innermost node around ``node`` that is of one of these kinds."""
    return cast("_Node | None", next((above for above in tree.ancestors(node) if type(above) in kinds), None))
