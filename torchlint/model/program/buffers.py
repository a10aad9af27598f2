"""The buffers of networks, and the parameters that are registered by name."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self


class Buffers(ForestFact):
    """Answers for one forest."""

    def of(self, owner: cst.ClassDef, name: str, *, or_parameter: bool = False) -> list[Call]:
        """The calls by which a class or one of its bases registers a buffer, or a parameter, of this name."""
        methods = ("register_buffer", "register_parameter") if or_parameter else ("register_buffer",)
        return [
            call
            for item in self._forest.definitions.lineage(owner)
            for call in self._registered.get((item, name), ())
            if call.method in methods
        ]

    def calls_for(self, node: cst.CSTNode) -> list[Call]:
        """The calls that register ``self.x`` as a buffer of its network, or ``self.net.x`` of a part of it."""
        if not isinstance(node, cst.Attribute) or node.attr.value not in self._names:
            return []
        if is_attribute_of_self(node):
            owner = nearest(self._forest.tree, node, cst.ClassDef)
        else:
            part = self._forest.value(node.value) if (dotted_name(node) or "").startswith("self.") else UNKNOWN
            owner = part.definition if part.kind is Kind.MODULE and isinstance(part.definition, cst.ClassDef) else None
        return [] if owner is None else self.of(owner, node.attr.value)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for _, name in self._registered)

    @cached_property
    def _registered(self) -> dict[tuple[cst.ClassDef, str], list[Call]]:
        """By class and name the calls that register something."""
        found: dict[tuple[cst.ClassDef, str], list[Call]] = {}
        for call in self._forest.methods("register_buffer", "register_parameter"):
            owner = nearest(self._forest.tree, call.node, cst.ClassDef)
            name = self._forest.value(call.argument("name").value).constant
            if owner is not None and isinstance(name, str):
                found.setdefault((owner, name), []).append(call)
        return found
