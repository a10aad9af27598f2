"""Switches that a file sets for good: environment variables, and flags of a library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.main_guard import is_main_guard

_DEVICE_WORDS = frozenset(
    "torch th backends cudnn cuda use_cuda is_available device_count and args opt cfg config self".split()
)


@dataclass(frozen=True, eq=False)
class Switch:
    """One assignment: ``os.environ["NAME"] = "1"``, ``torch.backends.cudnn.benchmark = True``."""

    node: cst.CSTNode  #: the statement
    name: str  #: of the variable, or dotted of the flag
    value: str | None  #: a variable's string, the text of a flag's literal; None if it is not a literal
    conditional: bool  #: whether it hangs on a condition, or is there for when something fails


class Switches(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._names = forest.names

    def variables(self, *names: str) -> Iterator[Switch]:
        """The places that set one of these environment variables, in order, and that nothing in the file undoes."""
        yield from (item for item in self._variables if item.name in names and not self._undone(item, self._variables))

    def flags(self, *names: str) -> Iterator[Switch]:
        """The places that set one of these flags, in order, and that nothing in the file undoes."""
        yield from (item for item in self._flags if item.name in names and not self._undone(item, self._flags))

    @cached_property
    def _variables(self) -> list[Switch]:
        found = []
        for target, value, statement in self._tree.stores:
            name = self._variable(target)
            if name is not None:
                text = value.evaluated_value if isinstance(value, cst.SimpleString) else None
                found.append(
                    Switch(statement, name, text if isinstance(text, str) else None, self.conditional(statement))
                )
        return found

    @cached_property
    def _flags(self) -> list[Switch]:
        found = []
        for target, value, statement in self._tree.stores:
            name = self._names.resolve(target) if isinstance(target, cst.Attribute) else None
            if name is not None:
                literal = isinstance(value, (cst.Name, cst.Integer, cst.SimpleString))
                text = self._forest.code(value) if literal and value is not None else None
                found.append(Switch(statement, name, text, self.conditional(statement)))
        return found

    def _variable(self, node: cst.CSTNode) -> str | None:
        """The name in ``os.environ["NAME"]``."""
        if not isinstance(node, cst.Subscript) or self._names.resolve(node.value) != "os.environ":
            return None
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        text = key.evaluated_value if isinstance(key, cst.SimpleString) else None
        return text if isinstance(text, str) else None

    def _undone(self, switch: Switch, others: list[Switch]) -> bool:
        """Whether the file gives it another value as well, or takes it away."""
        if any(other.name == switch.name and other.value != switch.value for other in others):
            return True
        return switch.name in self._taken_away

    @cached_property
    def _taken_away(self) -> set[str]:
        found: set[str] = set()
        for node in self._tree.of_kind(cst.Del):
            found.update(name for part in self._tree.nodes_in(node) if (name := self._variable(part)) is not None)
        for call in self._tree.calls_named("pop"):
            if dotted_name(call.func) == "os.environ.pop" and call.args:
                key = call.args[0].value
                text = key.evaluated_value if isinstance(key, cst.SimpleString) else None
                if isinstance(text, str):
                    found.add(text)
        return found

    def _asks_for_device(self, test: cst.BaseExpression) -> bool:
        """``torch.cuda.is_available()``, ``args.cuda``: a condition that is true wherever it matters."""
        words = re.findall(r"[A-Za-z_]\w*", self._forest.code(test))
        return any("cuda" in word or word == "cudnn" for word in words) and set(words) <= _DEVICE_WORDS

    def conditional(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is under a condition (other than the main guard), or in an ``except``."""
        for item in conditions(self._tree, node, exits=False):
            if item.kind in (ConditionKind.HANDLER, ConditionKind.CASE):
                return True
            if isinstance(item.node, cst.If) and not is_main_guard(item.node.test):
                if not self._asks_for_device(item.node.test):
                    return True
        return False
