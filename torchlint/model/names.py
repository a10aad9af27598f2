"""From an expression to what it names: imports, aliases, re-binding, conditional imports, definitions in the file."""

from __future__ import annotations

import builtins

import libcst as cst

from torchlint.model.knowledge import CANONICAL, STAR_EXPORTS
from torchlint.model.tree import Binding, Scope, Tree

_BUILTINS = frozenset(dir(builtins))
#: How many aliases (``a = b``) are followed before giving up.
_ALIAS_DEPTH = 8
_NAMED = frozenset({cst.Name, cst.Attribute})


class Names:
    """Resolves names of one file."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._resolved: dict[cst.CSTNode, str | None] = {}

    def scope_with(self, name: str, scope: Scope) -> Scope | None:
        """The scope whose binding of ``name`` is seen from ``scope``, by Python's rules."""
        current: Scope | None = scope
        first = True
        while current is not None:
            visible = first or not current.is_class
            if visible and name in current.bindings:
                return current
            first = False
            current = current.parent
        return None

    def bindings(self, name: cst.Name) -> list[Binding]:
        """Everything in the file that may bind this name where it is used."""
        scope = self.scope_with(name.value, self._tree.scope_of(name))
        return scope.bindings[name.value] if scope is not None else []

    def uses(self, binding: Binding) -> list[cst.Name]:
        """The places that may see ``binding``, other than the one that binds."""
        return [name for name in self._tree.names.get(binding.name, []) if binding in self.bindings(name)]

    def imports_of(self, node: cst.CSTNode) -> list[Binding] | None:
        """The imports that bind the first name of the dotted expression ``node``; None if anything else may.

        Empty where the name comes from ``import *``.
        """
        while isinstance(node, cst.Attribute):
            node = node.value
        if not isinstance(node, cst.Name):
            return None
        found = self.bindings(node)
        return found if all(binding.kind == "import" for binding in found) else None

    def resolve(self, node: cst.CSTNode | None) -> str | None:
        """The canonical dotted name of what ``node`` refers to, if it comes from an import or is a builtin.

        A name bound to different things (other than a None fallback) has no dotted name.
        """
        if node is None or type(node) not in _NAMED:  # asked of every call: `isinstance` would be ten times as slow
            return None
        if node in self._resolved:
            return self._resolved[node]
        found = self._resolve(node, 0)
        self._resolved[node] = found
        return found

    def alternatives(self, node: cst.CSTNode | None) -> frozenset[str]:
        """All dotted names ``node`` may have, where an import is conditional."""
        if isinstance(node, cst.Attribute):
            return frozenset(
                CANONICAL.get(f"{base}.{node.attr.value}", f"{base}.{node.attr.value}")
                for base in self.alternatives(node.value)
            )
        if isinstance(node, cst.Name):
            imported = {binding.imported for binding in self.bindings(node) if binding.kind == "import"}
            if imported:
                return frozenset(CANONICAL.get(name, name) for name in imported)
            single = self.resolve(node)
            return frozenset() if single is None else frozenset({single})
        return frozenset()

    def _resolve(self, node: cst.CSTNode, depth: int) -> str | None:
        if isinstance(node, cst.Attribute):
            base = self._resolve(node.value, depth)
            return None if base is None else _canonical(f"{base}.{node.attr.value}")
        if not isinstance(node, cst.Name) or depth > _ALIAS_DEPTH:
            return None
        scope = self.scope_with(node.value, self._tree.scope_of(node))
        if scope is None:
            return self._unbound(node)
        found: str | None = None
        for binding in scope.bindings[node.value]:
            if binding.kind == "for" and self._comes_later(binding, node, scope):
                continue
            if binding.kind == "import":
                name: str | None = _canonical(binding.imported)
            elif binding.kind == "assign" and binding.value is not None and not binding.path:
                if isinstance(binding.value, cst.Name) and binding.value.value == "None":
                    continue
                name = self._resolve(binding.value, depth + 1)
            else:
                name = None
            if name is None or (found is not None and name != found):
                return None
            found = name
        return found

    def _comes_later(self, binding: Binding, node: cst.Name, scope: Scope) -> bool:
        """Whether ``node`` runs before the loop ``binding`` re-uses its name: ``data.DataLoader``, ``for data in``."""
        tree = self._tree
        if tree.scope_of(node) is not scope or binding.order < tree.index(node):
            return False
        return not any(
            isinstance(above, (cst.For, cst.While)) and tree.within(binding.node, above)
            for above in tree.ancestors(node)
        )

    def _unbound(self, node: cst.Name) -> str | None:
        for module in self._tree.module_scope.star_imports:
            if node.value in STAR_EXPORTS.get(module, ()):
                return _canonical(f"{module}.{node.value}")
        if node.value == "torch" and self._tree.module_scope.star_imports:
            return "torch"  # handed on by a module of the project
        return f"builtins.{node.value}" if node.value in _BUILTINS else None


def _canonical(name: str) -> str:
    return CANONICAL.get(name, name)
