"""Command-line options: the value of ``args.workers`` when a script is run without arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.branches import ORDERS
from torchlint.model.semantics.compounds import integer
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.conditions import branches

#: The flags of a program, as absl keeps them.
_FLAGS = "absl.flags.FLAGS"
#: The maximum number of callers that a dictionary of options is followed through.
_DEPTH = 4
#: Comparisons of any two constants.
_EQUALITIES: dict[type[cst.BaseCompOp], Callable[..., bool]] = {cst.Equal: operator.eq, cst.NotEqual: operator.ne}


class Options(ForestFact):
    """The options that the program's own parsers define, and its flags."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._parsers = forest.values.parsers

    def default(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """The default of the option that ``node``, such as ``args.workers``, reads; None if unknown.

        Unknown, too, where the file sets the attribute itself, or defines the option more than once.
        """
        defaults = self.defaults(node)
        return defaults[0] if len(defaults) == 1 else None

    def defaults(self, node: cst.CSTNode | None) -> list[cst.BaseExpression | None]:
        """The defaults of the options, of any parser, that ``node`` may read; empty if the program sets one itself.

        In ``args.workers = args.workers // 2`` the right side still reads the option.
        """
        name = self._read_by(node)
        return [] if node is None or name is None else self._parsers.defaults(name, node)

    def is_off(self, node: cst.CSTNode) -> bool:
        """Whether ``node``, such as ``args.gpu``, reads a switch that is off by default, and nothing else sets."""
        name = self._read_by(node)
        return name is not None and self._parsers.are_off(name, node)

    def leave_out(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is under ``if args.gpu:`` or ``if args.frozen > 0:``, which is false by default."""
        return any(self._holds(item.test) is item.is_else for item in branches(self._forest.tree, node))

    def prefer(self, other: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a run without arguments takes the branch with ``other``, and not that with ``node``.

        So the body of ``if args.limit == -1:``, where -1 is the default, and not the ``else``.
        """
        within = self._forest.tree.within
        return any(
            within(other, item.node) and not within(other, item.part) and self._holds(item.test) is item.is_else
            for item in branches(self._forest.tree, node)
        )

    def _holds(self, test: cst.BaseExpression | None) -> bool | None:
        """Whether a condition on an option is true without arguments; None if it is about anything else."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            holds = self._holds(test.expression)
            return None if holds is None else not holds
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            compared = test.comparisons[0]
            other, compares = self._constant(compared.comparator), (_EQUALITIES | ORDERS).get(type(compared.operator))
            defaults = [self._constant(item) for item in self.defaults(test.left)]
            if compares is None or other is None or None in defaults:
                return None
            if type(compared.operator) in ORDERS and not all(map(_is_number, (other, *defaults))):
                return None
            found = {compares(default, other) for default in defaults}
            return found.pop() if len(found) == 1 else None
        if not isinstance(test, (cst.Attribute, cst.Subscript)):
            return None
        default = self._constant(self.default(test))
        return default if isinstance(default, bool) else False if self.is_off(test) else None

    def _constant(self, node: cst.BaseExpression | None) -> object:
        """The number, string or flag that ``node`` is, also a negative number; None if unknown."""
        return None if node is None else self._forest.value(node).constant if integer(node) is None else integer(node)

    def _read_by(self, node: cst.CSTNode | None) -> str | None:
        """The name of the option that ``node`` reads; None if the program sets it itself."""
        name = self._option_of(node)
        if node is None or name is None or not self.is_declared(name):
            return None
        within = self._forest.tree.within
        stored = self._stored.get(name, ())
        return None if any(value is None or not within(node, value) for value in stored) else name

    def declared(self, node: cst.CSTNode) -> list[cst.BaseExpression | None]:
        """The defaults of the options, of any parser, that ``node`` may read, whatever the program sets it to.

        Without such an option, those of the fields of this name in classes of settings.
        """
        name = self._option_of(node)
        if name is None or self._forest.names.members(node):
            return []  # `config.workers` of a module
        if isinstance(node, cst.Attribute) and self._is_of_class(node.value):
            return []
        found = self._parsers.defaults(name, node)
        return found or (self._parsers.field_defaults(name) if isinstance(node, cst.Attribute) else [])

    def is_declared(self, name: str) -> bool:
        """Whether a parser has an option of this name."""
        return self._parsers.is_declared(name)

    @cached_property
    def _stored(self) -> dict[str, list[cst.BaseExpression | None]]:
        """What the program sets options to. Attributes of objects of its own classes are not options."""
        found: dict[str, list[cst.BaseExpression | None]] = {}
        for target, value, _ in self._forest.tree.stores:
            name = self._option_of(target)
            if name is not None and self.is_declared(name):
                if not (isinstance(target, cst.Attribute) and self._is_of_class(target.value)):
                    found.setdefault(name, []).append(value)
        return found

    def _is_of_class(self, node: cst.BaseExpression) -> bool:
        return isinstance(self._forest.value(node).definition, cst.ClassDef)

    def _option_of(self, node: cst.CSTNode | None) -> str | None:
        """``workers`` of ``args.workers``, and of ``config["workers"]`` where ``config = vars(parse_args())``."""
        if isinstance(node, cst.Attribute):
            name = self._forest.name_of(node)
            return node.attr.value if name in (None, f"{_FLAGS}.{node.attr.value}") else None
        if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not isinstance(node.value, cst.Name):
            return None
        index = node.slice[0].slice
        key = self._forest.value(index.value).constant if isinstance(index, cst.Index) else None
        return key if isinstance(key, str) and self._are_options(node.value, _DEPTH) else None

    def _are_options(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node`` is the dictionary ``vars(parse_args())``, here or in what a caller passes."""
        if isinstance(node, cst.Call):
            return self._forest.name_of(node.func) == "builtins.vars"
        bindings = self._forest.names.bindings(node) if isinstance(node, cst.Name) and depth > 0 else []
        for binding in bindings:
            if binding.kind is BindingKind.PARAM and isinstance(binding.node, cst.Param):
                given = self._forest.written.of_bindings([binding])
                if given is not None and any(self._are_options(value, depth - 1) for value in given.values):
                    return True
            elif isinstance(binding.value, cst.Call) and self._are_options(binding.value, depth):
                return True
        return False


def _is_number(constant: object) -> bool:
    return isinstance(constant, (int, float)) and not isinstance(constant, bool)
