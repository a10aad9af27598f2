"""Scopes, and what they bind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from torchlint.model.syntax.binding_kinds import BindingKind

COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


@dataclass(eq=False)
class Binding:
    """One place that gives a name (or an attribute of ``self``) its value."""

    name: str
    kind: BindingKind
    node: cst.CSTNode  #: the statement or parameter that binds
    order: int
    value: cst.BaseExpression | None = None  #: the bound expression; for ``for`` the iterable, for ``with`` the manager
    path: tuple[int, ...] = ()  #: position in the unpacked value, -1 for a starred or unknown position
    imported: str = ""  #: what an import binds, as a dotted name

    def under(self, name: str, order: int) -> Binding:
        """The same under another name, and at another place."""
        return Binding(name, self.kind, self.node, order, self.value, self.path, self.imported)

    @property
    def targets(self) -> int | None:
        """How many elements the value has that an assignment unpacks; None if it unpacks none, or any number."""
        for target in self.node.targets if self.path and isinstance(self.node, cst.Assign) else ():
            elements = target.target.elements if isinstance(target.target, (cst.Tuple, cst.List)) else ()
            starred = any(isinstance(element, cst.StarredElement) for element in elements)
            if elements:
                return None if starred else len(elements)
        return None


def unpacked(value: cst.BaseExpression | None, path: tuple[int, ...]) -> cst.BaseExpression | None:
    """The expression in ``value`` that unpacking by ``path`` takes; ``value`` if there is nothing to take.

    None where it is not written as an element of a tuple or list.
    """
    for position in path:
        if not isinstance(value, (cst.Tuple, cst.List)) or not 0 <= position < len(value.elements):
            return None
        value = value.elements[position].value
    return value


def captured(pattern: cst.MatchPattern) -> Iterator[str]:
    """The names that a pattern of ``match`` binds: ``workers`` of ``case {"workers": workers}:``."""
    waiting: list[cst.CSTNode] = [pattern]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        name = node.rest if isinstance(node, cst.MatchMapping) else None
        if isinstance(node, (cst.MatchAs, cst.MatchStar)):
            name = node.name
        if name is not None:
            yield name.value


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and what it binds."""

    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    #: for a class: what its methods assign to attributes of ``self``
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)  #: declared ``global`` or ``nonlocal``
    star_imports: list[str] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        """Whether nested functions do not see this scope's names."""
        return type(self.node) is cst.ClassDef

    @property
    def is_comprehension(self) -> bool:
        """Whether it is that of a comprehension."""
        return type(self.node) in COMPREHENSIONS
