"""Dictionaries that are only read: by functions that are given them, by methods, by expressions around them."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.values import Values
from torchlint.model.syntax.dotted import dotted_name, index_of
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.tree import Tree

#: Calls that make a dictionary of another one.
MAKERS = frozenset({"builtins.dict", "collections.OrderedDict"})
#: Functions that do not change a dictionary they are given.
_READERS = frozenset(f"builtins.{name}" for name in "print len str repr isinstance sorted list tuple set bool".split())
#: Libraries whose functions do not change one either, and loggers.
_READING = re.compile(r"(json|yaml|pprint|logging|pickle|torch|wandb)\.|(\w+\.)*(print|log|debug|info|warning|write)$")
#: Methods that do not change their dictionary.
READING_METHODS = frozenset("get items keys values copy".split())
#: Nodes that only read the dictionary they contain.
READING_NODES = (
    cst.ComparisonTarget, cst.Comparison, cst.FormattedStringExpression, cst.StarredDictElement, cst.Return, cst.Expr,
    cst.If, cst.For, cst.UnaryOperation, cst.BinaryOperation, cst.CompFor,
)  # fmt: skip


class DictReads:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Values) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values

    @cached_property
    def stored(self) -> dict[cst.Subscript, tuple[cst.BaseExpression | None]]:
        """By item of a dictionary, ``options["workers"]``, what is assigned to it; None where that is unpacked."""
        return {target: (value,) for target, value, _ in self._tree.stores if isinstance(target, cst.Subscript)}

    @cached_property
    def stored_keys(self) -> frozenset[object]:
        """The keys, as far as they are known, under which items of any dictionary are assigned."""
        return frozenset(self._values.of(index_of(node)).constant for node in self.stored)

    def only_reads(self, argument: cst.Arg, depth: int) -> bool:
        """Whether what a call is given as ``argument`` stays as it is."""
        call = self._tree.parent(argument)
        if not isinstance(call, cst.Call) or depth <= 0:
            return False
        name = self._names.resolve(call.func)
        if name in _READERS or name in knowledge.COPIES or name in MAKERS:
            return True
        if _READING.match(name or dotted_name(call.func) or ""):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "update":
            return True
        definitions = self._definitions.called(call, self._values)
        return bool(definitions) and all(self._keeps(item, call, argument, depth) for item in definitions)

    def _keeps(self, definition: cst.FunctionDef | cst.ClassDef, call: cst.Call, argument: cst.Arg, depth: int) -> bool:
        """Whether a function only reads the parameter that a call passes ``argument`` for."""
        if not isinstance(definition, cst.FunctionDef):
            return False
        for param in parameters_of(definition):
            if self._definitions.argument_of(call, definition, param) is argument.value:
                uses = [
                    use
                    for use in self._tree.names.get(param.name.value, ())
                    if any(binding.node is param for binding in self._names.bindings(use))
                ]
                return all(self.is_read(use, depth - 1) for use in uses)
        return False

    def is_read(self, use: cst.Name | cst.Subscript, depth: int) -> bool:
        """Whether the use of a dictionary, or of a dictionary in it, does not change it."""
        above = self._tree.parent(use)
        if isinstance(above, cst.Attribute):
            return above.attr.value in READING_METHODS
        if isinstance(above, cst.Subscript):
            return above not in self.stored
        if isinstance(above, cst.Arg):
            return bool(above.star) or self.only_reads(above, depth)
        return isinstance(above, READING_NODES) and not isinstance(above, cst.Return)

    def binds(self, above: cst.CSTNode, part: cst.CSTNode, node: cst.BaseExpression) -> bool:
        """Whether ``above`` binds the name ``node``, as its target ``part`` or again: ``options = options or {}``."""
        if isinstance(above, (cst.AnnAssign, cst.For, cst.NamedExpr)):
            return above.target is part
        targets = [item.target for item in above.targets] if isinstance(above, cst.Assign) else []
        is_again = isinstance(node, cst.Name) and [node.value] == [
            item.value if isinstance(item, cst.Name) else "" for item in targets
        ]
        return isinstance(above, cst.AssignTarget) or is_again
