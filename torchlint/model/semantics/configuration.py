"""Settings that are held elsewhere: constants, configuration objects, dictionaries, options, parameters."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.options import Options
from torchlint.model.semantics.written import Sources

#: How many names and attributes a setting is followed through.
_DEPTH = 8


class Configuration(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    def sources(self, node: cst.BaseExpression, depth: int = _DEPTH) -> Sources | None:
        """The expressions, no longer names of something else, that ``node`` takes its value from; None if unknown."""
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) or _is_constant(node):
            return Sources((node,), True)
        found = self._step(node) if depth > 0 else None
        if found is None:
            return None
        values: list[cst.BaseExpression] = []
        complete = found.complete
        for value in found.values:
            inner = self.sources(value, depth - 1)
            if inner is None:
                return None
            values += inner.values
            complete = complete and inner.complete
        return Sources(tuple(dict.fromkeys(values)), complete)

    def literal(self, node: cst.BaseExpression | None) -> str | None:
        """The literal, such as ``0`` or ``False``, that ``node`` has whoever starts the program; None if unknown."""
        found = self.sources(node) if node is not None else None
        if found is None or not found.complete:
            return None
        texts = {value.value if isinstance(value, (cst.Integer, cst.Name)) else None for value in found.values}
        return texts.pop() if len(texts) == 1 else None

    def _step(self, node: cst.Name | cst.Attribute | cst.Subscript) -> Sources | None:
        default = Sources((option,), False) if (option := self._module.fact(Options).default(node)) else None
        if isinstance(node, cst.Subscript):
            return self._item(node) or default
        return self._module.written.sources(node) or default

    def _item(self, node: cst.Subscript) -> Sources | None:
        """``4`` for ``config["workers"]``."""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        key = self._module.value(index.value).constant if isinstance(index, cst.Index) else None
        if not isinstance(key, str):
            return None
        found = self._module.keywords.entries(node.value, key)
        return Sources(found.values, True) if found.values and found.known else None


def _is_constant(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("True", "False", "None")
