"""What is looked up often in a forest: made when it is first asked for, and shared by all of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.keywords import Keywords
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree


class Lookups:
    """Answers for one forest."""

    def __init__(self, find_line_starts: Callable[[], list[int]], tree: Tree, names: Names, keywords: Keywords) -> None:
        self._find_line_starts = find_line_starts
        self._tree = tree
        self._names = names
        self._keywords = keywords
        self._calls: dict[tuple[str, cst.CSTNode | None], list[Call]] = {}

    @cached_property
    def line_starts(self) -> list[int]:
        """Where each row of the text begins."""
        return self._find_line_starts()

    def calls_of(self, name: str, outer: cst.CSTNode | None) -> list[Call]:
        """The calls of what has a canonical name, inside ``outer`` if it is given, in order."""
        key = name, outer
        if key not in self._calls:
            nodes = self._names.calls.get(name, ())
            inside = nodes if outer is None else self._tree.among(nodes, outer)
            self._calls[key] = [Call(node, name, self._keywords) for node in inside]
        return self._calls[key]

    @cached_property
    def imported_by(self) -> Mapping[cst.CSTNode, frozenset[str]]:
        """By the root of a file the dotted names of everything that it imports."""
        return {root: frozenset(item.imported for item in found) for root, found in self.imports.items()}

    @cached_property
    def imports(self) -> Mapping[cst.CSTNode, list[Binding]]:
        """By the root of a file the bindings of its names, and of those of its functions, that are imports."""
        stars = [scope for scope in self._tree.scopes.values() if scope.star_imports]  # linked files may bind its names
        names = {**self._tree.imported_names, **{(scope, name): None for scope in stars for name in scope.bindings}}
        found: dict[cst.CSTNode, list[Binding]] = {root: [] for root in self._tree.roots}
        for scope, name in names:
            imports = (binding for binding in scope.bindings[name] if binding.kind is BindingKind.IMPORT)
            found[self._tree.root_of(scope.node)].extend(imports)
        return found
