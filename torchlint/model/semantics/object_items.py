"""Dictionaries of the attributes of an object: ``vars(args)``, ``asdict(config)``, ``EasyDict(workers=4)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.names import Names
from torchlint.model.semantics.values import Values
from torchlint.model.semantics.written import Written
from torchlint.model.syntax.calls import Entries
from torchlint.model.syntax.dotted import dotted_name

#: Functions and methods that return the attributes of an object as a dictionary.
_FUNCTIONS = frozenset({"builtins.vars", "dataclasses.asdict", "attr.asdict", "attrs.asdict"})
_METHODS = frozenset({"_asdict", "asdict", "dict", "model_dump", "to_dict"})


class ObjectItems:
    """Answers for one forest."""

    def __init__(self, names: Names, values: Values, written: Written) -> None:
        self._names = names
        self._values = values
        self._written = written

    def entries(self, node: cst.BaseExpression, key: str | int) -> Entries | None:
        """What ``node`` contains under ``key``; None if it is not such a dictionary."""
        if not isinstance(key, str):
            return None
        owner = self._owner(node)
        if owner is None:
            stored = self._values.records.stored_under(node, key)
            return _seen(stored) if stored else None
        if dotted_name(owner) == "self":
            return None
        found = self._written.attribute_of(self._values.of(owner), key)
        if found is not None:
            return Entries(found.values, certain=True, known=found.complete)
        defaults = self._values.parsers.defaults(key, owner)
        stores = self._values.records.stores.get(key, ()) if defaults else ()
        return _seen([*defaults, *(value for target, value in stores if dotted_name(target.value) != "self")])

    def _owner(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The object whose attributes ``node`` is a dictionary of."""
        if isinstance(node, cst.Attribute):
            return node.value if node.attr.value == "__dict__" else None
        if not isinstance(node, cst.Call):
            return None
        if len(node.args) == 1 and self._names.resolve(node.func) in _FUNCTIONS:
            return node.args[0].value
        is_method = not node.args and isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS
        return node.func.value if is_method and isinstance(node.func, cst.Attribute) else None


def _seen(values: list[cst.BaseExpression | None]) -> Entries:
    """The values that are seen, among which there may be others."""
    known = tuple(dict.fromkeys(value for value in values if value is not None))
    return Entries(known, certain=bool(known), known=False, usual=None not in values)
