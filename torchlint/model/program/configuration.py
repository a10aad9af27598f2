"""Settings that are kept elsewhere: constants, configuration objects, dictionaries, options, parameters."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.options import Options
from torchlint.model.semantics.written import Sources
from torchlint.model.syntax.calls import Entries
from torchlint.model.syntax.dotted import index_of
from torchlint.model.syntax.literals import is_constant_name

#: How many names and attributes a setting is followed through.
_DEPTH = 8
#: Functions that give the value of a setting in the type that is needed.
_CONVERSIONS = frozenset({"builtins.int", "builtins.bool"})


class Configuration(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def sources(self, node: cst.BaseExpression, depth: int = _DEPTH) -> Sources | None:
        """The expressions, no longer names of something else, that ``node`` takes its value from; None if unknown.

        What a function passes on to itself, or an object to another one of its class, adds none.
        """
        complete = True
        values: dict[cst.BaseExpression, None] = {}
        waiting = [(node, depth)]
        seen = {node}
        while waiting:
            held, left = waiting.pop()
            item = unconverted(self._forest, held)
            found = self._with_default(item) if isinstance(item, cst.Call) and left > 0 else None
            if found is None and (not is_read(item) or is_constant_name(item)):
                values[item] = None
                continue
            found = found or (self.step(item) if left > 0 else None)
            if found is None:
                return None
            complete = complete and found.complete
            following = [value for value in found.values if value not in seen]
            seen.update(following)
            waiting += [(value, left - 1) for value in reversed(following)]
        return Sources(tuple(values), complete) if values else None

    def written_as(self, node: cst.BaseExpression | None, literal: str) -> cst.BaseExpression | None:
        """Where ``node`` is set to ``literal``, ``0`` or ``False``; None if anything may set it to something else."""
        found = self.sources(node) if node is not None else None
        if found is None or not found.complete:
            return None
        literals = [value for value in found.values if isinstance(value, (cst.Integer, cst.Name))]
        agree = len(literals) == len(found.values) and all(value.value == literal for value in literals)
        return literals[0] if agree else None

    def step(self, node: cst.BaseExpression) -> Sources | None:
        """The expressions that ``node`` may be set to, which may be names of something else; None if unknown.

        An option may have its default, too, where the program sets it itself on some paths.
        """
        found = self._item(node) if isinstance(node, (cst.Subscript, cst.Call)) else self._forest.written.sources(node)
        options = self._forest.fact(Options)
        defaults = options.declared(node) or (options.defaults(node) if found is None else [])
        known = tuple(default for default in defaults if default is not None)
        if not known or len(known) < len(defaults):
            return found
        return Sources(tuple(dict.fromkeys((*(found.values if found is not None else ()), *known))), False)

    def _item(self, node: cst.Subscript | cst.Call) -> Sources | None:
        """``4`` for ``config["workers"]`` and ``config.pop("workers")``."""
        if isinstance(node, cst.Subscript):
            container, index = node.value, index_of(node)
        elif is_read(node) and isinstance(node.func, cst.Attribute):
            container, index = node.func.value, node.args[0].value
        else:
            return None
        found = self._entries(container, index)
        return Sources(found.values, found.known) if found.values else None

    def _with_default(self, node: cst.Call) -> Sources | None:
        """``4`` and ``0`` for ``config.get("workers", 0)``, if all that the dictionary contains is seen."""
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in ("get", "pop"):
            return None
        if len(node.args) != 2:
            return None
        found = self._entries(node.func.value, node.args[0].value)
        if not found.known:
            return None
        return Sources(found.values if found.certain else (*found.values, node.args[1].value), True)

    def _entries(self, container: cst.BaseExpression, index: cst.BaseExpression | None) -> Entries:
        """What a dictionary may contain under a key, which must be a constant."""
        key = self._forest.value(index).constant
        return self._forest.keywords.entries(container, key) if isinstance(key, str) else Entries(known=False)


def is_read(node: cst.BaseExpression) -> bool:
    """Whether ``node`` reads a setting that is kept elsewhere: ``options.workers``, ``options.pop("workers")``."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "pop" and len(node.args) == 1
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def unconverted(forest: Forest, node: cst.BaseExpression) -> cst.BaseExpression:
    """``args.workers`` of ``int(args.workers)``."""
    while isinstance(node, cst.Call) and forest.name_of(node.func) in _CONVERSIONS:
        if len(node.args) != 1 or node.args[0].star or node.args[0].keyword is not None:
            break
        node = node.args[0].value
    return node
