"""What decides whether a node runs each time that the code around it does: branches, handlers, loops, earlier exits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import HANDLERS, TRIES
from torchlint.model.syntax.tree import Tree


class ConditionKind(Enum):
    """What a node depends on."""

    BRANCH = "branch"  #: of an ``if``, or of a conditional expression
    CASE = "case"  #: of a ``match``
    LOOP = "loop"  #: the body of a loop, which may have no iterations
    ELSE = "else"  #: of a loop
    TRY = "try"  #: its body or its ``else``, which an exception may leave or leave out
    HANDLER = "handler"  #: of exceptions
    SHORT_CIRCUIT = "short circuit"  #: the second operand of ``and`` or ``or``
    DEFINITION = "definition"  #: the body of a function or class
    EXIT = "exit"  #: an earlier ``if`` whose body leaves the block


@dataclass(frozen=True, eq=False)
class Condition:
    """One of the conditions under which a node runs."""

    kind: ConditionKind
    node: cst.CSTNode  #: the statement or expression that decides
    part: cst.CSTNode  #: the part of it that runs under the condition; the body of an ``if`` that leaves the block

    @property
    def test(self) -> cst.BaseExpression | None:
        """The test of a branch or an exit."""
        return self.node.test if isinstance(self.node, (cst.If, cst.IfExp)) else None

    @property
    def guard(self) -> cst.If | None:
        """The ``if`` whose body is the part under the condition, or that of an exit."""
        return self.node if isinstance(self.node, cst.If) and self.part is self.node.body else None

    @property
    def is_else(self) -> bool:
        """Whether a branch runs if its test is False."""
        return isinstance(self.node, (cst.If, cst.IfExp)) and self.part is self.node.orelse

    def leaves_by(self, *kinds: type[cst.BaseSmallStatement]) -> bool:
        """Whether the part under the condition ends with one of these statements, as that of an exit does."""
        return isinstance(self.part, cst.BaseSuite) and ends_with(self.part, *kinds)


def conditions(
    tree: Tree, node: cst.CSTNode, outer: cst.CSTNode | None = None, *, exits: bool = True
) -> Iterator[Condition]:
    """The conditions between ``outer``, or else the file, and ``node``, innermost first; maybe without ``exits``.

    Tests and headers depend on none: ``outer`` always reaches the test of its first ``if``.
    """
    for above, child in climb(tree, node, outer):
        kind = _kind(above, child)
        if kind is not None:
            yield Condition(kind, above, child)
        if exits and isinstance(above, cst.IndentedBlock):
            yield from _exits(above, child)


def branches(tree: Tree, node: cst.CSTNode, outer: cst.CSTNode | None = None) -> Iterator[Condition]:
    """Of the conditions, the branches of an ``if`` or a conditional expression that contain ``node``."""
    for above, child in climb(tree, node, outer):
        if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
            yield Condition(ConditionKind.BRANCH, above, child)


def _kind(above: cst.CSTNode, child: cst.CSTNode) -> ConditionKind | None:
    if isinstance(above, (cst.If, cst.IfExp)):
        return None if child is above.test else ConditionKind.BRANCH
    if isinstance(above, (cst.For, cst.While)):
        return ConditionKind.LOOP if child is above.body else ConditionKind.ELSE if child is above.orelse else None
    if isinstance(above, TRIES):
        return ConditionKind.TRY if child in (above.body, above.orelse) else None
    if isinstance(above, HANDLERS):
        return ConditionKind.HANDLER
    if isinstance(above, cst.MatchCase):
        return ConditionKind.CASE
    if isinstance(above, cst.BooleanOperation):
        return ConditionKind.SHORT_CIRCUIT if child is above.right else None
    if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
        return ConditionKind.DEFINITION if child is above.body else None
    return None


def _exits(block: cst.IndentedBlock, child: cst.CSTNode) -> Iterator[Condition]:
    for item in block.body:
        if item is child:
            return
        if isinstance(item, cst.If) and ends_with(item.body, cst.Return, cst.Raise, cst.Continue, cst.Break):
            yield Condition(ConditionKind.EXIT, item, item.body)


def conjuncts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What ``a and b and c`` asks: ``a``, ``b`` and ``c``; of another test the test itself."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from conjuncts(test.left)
        yield from conjuncts(test.right)
    else:
        yield test
