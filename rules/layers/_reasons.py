"""Why a setting that costs speed may be there on purpose: a comment, a condition, a seed, the wish to reproduce."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.switches import Switch, Switches
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.nodes import TRIES
from torchlint.source.lexemes import without_suppressions

_REPRODUCIBLE = re.compile(r"determinis|reproduc|bitwise", re.IGNORECASE)
# Were a suppression a reason, it would silence the rule, and then be reported for suppressing nothing.

_SEEDS = re.compile(r"seed", re.IGNORECASE)
#: A seed that is set so many rows away belongs to a flag.
_NEAR = 6


class Reasons(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def is_reproducible(self) -> bool:
        """Whether the file wants the same digits in every run."""
        tree = self._forest.tree
        words = (*tree.names, *tree.attributes_by_name)
        return any(_REPRODUCIBLE.search(word) for word in (*words, *(item.name.value for item in tree.functions)))

    def switched_off(self, *flags: str) -> list[tuple[Switch, cst.BaseExpression]]:
        """Where the file sets one of these flags to False for good and without a reason, each with the value."""
        return [
            (switch, switch.node.value)
            for switch in self._forest.fact(Switches).flags(*flags)
            if switch.value == "False" and not switch.conditional and isinstance(switch.node, cst.Assign)
            if not self.explain(switch.node)
        ]

    def explain(self, node: cst.CSTNode) -> bool:
        """Whether a comment, an attempt, a seed set next to it, or the wish to reproduce says why ``node`` is there."""
        forest = self._forest
        row = forest.row(node)
        above = without_suppressions(forest.line(row - 1)) if row > 1 else ""
        if "#" in without_suppressions(forest.line(row)) or above.lstrip().startswith("#"):
            return True
        if self.is_reproducible or nearest(forest.tree, node, *TRIES) is not None:
            return True
        function = forest.function_of(node)
        if function is not None and _SEEDS.search(function.name.value):
            return True
        return any(
            forest.function_of(call.node) is function and abs(forest.row(call.node) - row) <= _NEAR
            for call in forest.methods("manual_seed", "manual_seed_all", "seed", "seed_all", "set_seed")
        )
