"""Code that is there for other versions of a library: behind a version test, a probe, or a failed first attempt."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import HANDLERS, TRIES, Handler

#: Words of a test that asks for a version.
_PROBE = re.compile(r"(^|_)version|find_spec|torch_?(\d|greater|less|[gl][et]_?\d)", re.IGNORECASE)
_ASKS_FOR_ATTRIBUTE = frozenset({"builtins.hasattr", "builtins.getattr"})
#: What ends a block that is left.
_EXITS = (cst.Return, cst.Raise, cst.Continue, cst.Break)
#: What an attempt raises where the library lacks something.
_LACKING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "NameError"})


class VersionChecks(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._leaving: dict[cst.CSTNode, list[tuple[int, cst.BaseExpression]]] = {}

    def for_other_versions(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs only with some versions of a library, or as a fallback for something else."""
        for item in conditions(self._tree, node, exits=False):
            if item.kind is ConditionKind.HANDLER or (item.test is not None and self.probes(item.test)):
                return True
            if isinstance(item.node, TRIES) and item.part is item.node.body:
                if any(map(_catches_lack, item.node.handlers)):
                    return True
        return any(self.probes(test) for test in self.left_before(node))

    def probes(self, test: cst.BaseExpression) -> bool:
        """Whether ``test`` asks for a version, or whether a library offers something."""
        return self._probes(test, follow=True)

    def _probes(self, test: cst.BaseExpression, follow: bool) -> bool:
        for node in self._tree.nodes_in(test):
            if isinstance(node, cst.Call) and self._names.resolve(node.func) in _ASKS_FOR_ATTRIBUTE and node.args:
                if self._names.resolve(node.args[0].value) is not None:
                    return True
            elif isinstance(node, cst.Attribute) and _PROBE.search(node.attr.value):
                return True
            elif isinstance(node, cst.Name):
                if _PROBE.search(node.value):
                    return True
                held = [binding.value for binding in self._names.bindings(node)] if follow else []
                if any(value is not None and self._probes(value, follow=False) for value in held):
                    return True
        return False

    def alternative(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether only one of the two runs: other branches, a fallback, or behind a branch that leaves."""
        tree = self._tree
        if tree.exclusive(first, second):
            return True
        for one, other in ((first, second), (second, first)):
            for above, child in climb(tree, one):
                if isinstance(above, (*HANDLERS, cst.MatchCase)):
                    whole = tree.parent(above)
                    if whole is not None and tree.within(other, whole) and not tree.within(other, above):
                        return True
                if isinstance(above, cst.If) and child is above.body and ends_with(above.body, *_EXITS):
                    home = tree.parent(above)
                    if home is not None and tree.within(other, home) and tree.index(other) > tree.last(above.body):
                        return True
        return False

    def left_before(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tests of the branches before ``node`` that leave the block."""
        for block, position, _ in self._tree.block_path(node):
            if isinstance(block, (cst.IndentedBlock, cst.Module)):
                if block not in self._leaving:
                    self._leaving[block] = [
                        (index, statement.test)
                        for index, statement in enumerate(block.body)
                        if isinstance(statement, cst.If) and ends_with(statement.body, *_EXITS)
                    ]
                yield from (test for index, test in self._leaving[block] if index < position)


def _catches_lack(handler: Handler) -> bool:
    kinds = handler.type
    names = [element.value for element in kinds.elements] if isinstance(kinds, cst.Tuple) else [kinds]
    return any(isinstance(name, cst.Name) and name.value in _LACKING for name in names)
