"""Where a name is given a tensor: in the block that uses it, or once, to be kept."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name


class GivenNames(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def is_beside(self, node: cst.Name) -> bool:
        """Whether what a name gets is made in the block that uses it, perhaps only under a condition there."""
        tree = self._forest.tree
        made = [tree.statement_of(item.node) for item in self._forest.values.reaching.of(node)]
        blocks = [tree.parent(row) for row in self._rows(tree.statement_of(node))]
        return any(all(tree.parent(tree.parent(item) or item) is block for item in made) for block in blocks)

    def is_behind_branches(self, node: cst.Name) -> bool:
        """Whether a name is given a parameter or what one of two branches makes, of a condition in the same block."""
        tree = self._forest.tree
        made = [item for item in self._forest.values.reaching.of(node) if item.kind is not BindingKind.PARAM]
        row = tree.parent(tree.statement_of(node))
        block = tree.parent(row) if row is not None else None
        choices = {self._choice(tree.statement_of(item.node)) for item in made}
        only = next(iter(choices)) if len(choices) == 1 else None
        return only is not None and block is not None and tree.parent(only) is block

    def are_copied_alike(self, one: cst.Name, other: cst.Name) -> bool:
        """Whether two uses of a tensor copy it to where other tensors are: ``x.type_as(y)`` and ``x.type_as(z)``."""
        return self._is_copied(one) and self._is_copied(other)

    def _is_copied(self, use: cst.Name) -> bool:
        method = self._forest.tree.parent(use)
        call = self._forest.tree.parent(method) if isinstance(method, cst.Attribute) and method.value is use else None
        return isinstance(call, cst.Call) and call.func is method and called_name(call) == "type_as"

    def _choice(self, statement: cst.CSTNode) -> cst.If | None:
        """The condition in whose branch a statement is, the first one of several with ``elif``."""
        tree = self._forest.tree
        suite = tree.parent(tree.parent(statement) or statement)
        above = tree.parent(suite) if isinstance(suite, cst.IndentedBlock) else None
        above = tree.parent(above) if isinstance(above, cst.Else) else above
        while isinstance(above, cst.If) and isinstance(outer := tree.parent(above), cst.If) and outer.orelse is above:
            above = outer
        return above if isinstance(above, cst.If) else None

    def _rows(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The row of a statement, and the conditions around it."""
        tree = self._forest.tree
        row = tree.parent(statement) or statement
        suite = row if isinstance(row, cst.SimpleStatementSuite) else tree.parent(row)
        above = tree.parent(suite) if suite is not None else None
        while above is not None and isinstance(outer := tree.parent(above), cst.If) and outer.orelse is above:
            above = outer
        if not isinstance(above, cst.If):
            return [row]
        rows: list[cst.CSTNode] = [row, above]
        while isinstance(outer := tree.parent(tree.parent(above) or above), cst.If) and outer.orelse is None:
            rows.append(above := outer)
        return rows

    def _is_parameter(self, node: cst.Name) -> bool:
        """Whether a name can only be what a function is given, as a tensor that its caller need not pass."""
        return all(item.kind is BindingKind.PARAM for item in self._forest.values.reaching.of(node))

    def is_kept(self, row: cst.CSTNode, name: str) -> bool:
        """Whether a row is run once and what it makes is kept: ``if bank is None:``."""
        return any(
            isinstance(part, cst.Comparison)
            and isinstance(part.left, cst.Name)
            and part.left.value == name
            and any(isinstance(item.operator, cst.Is) for item in part.comparisons)
            and not self._is_parameter(part.left)
            for above in self._forest.tree.ancestors(row)
            if isinstance(above, cst.If)
            for part in self._forest.tree.nodes_in(above.test)
        )
