"""From an expression to what it names: imports, aliases, re-binding, conditional imports, definitions in the file."""

from __future__ import annotations

import builtins
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

import libcst as cst

from torchlint.model.semantics.knowledge import IMPORT_MODULE, STAR_EXPORTS, canonical
from torchlint.model.semantics.links import Links, names_bound_by
from torchlint.model.semantics.loaded_modules import LoadedModules
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import base_of, dotted_name, last_name
from torchlint.model.syntax.literals import is_none, value_of
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree

_BUILTINS = frozenset(dir(builtins))
#: How many aliases (``a = b``) are followed before giving up.
_ALIAS_DEPTH = 8
#: A dict with more items than this contains something unknown.
_MAX_MODULES = 16
_NAMED = frozenset({cst.Name, cst.Attribute})
#: A scope, or that of a class, and the name in it or of the attribute of ``self``.
Variable: TypeAlias = tuple[Scope, str]
_order = attrgetter("order")


class Names:
    """Resolves names of one file."""

    def __init__(self, tree: Tree, links: Links) -> None:
        self._tree = tree
        self._links = links
        self._loaded = LoadedModules(tree, links, self)
        self._homes: dict[cst.Name, Scope | None] = {}
        self._members: dict[cst.Attribute, list[Binding] | None] = {}
        self._resolved: dict[cst.CSTNode, str | None] = {}
        #: What all bindings of a name in a scope agree on, by the number of aliases before it.
        self._agreed: dict[tuple[Scope, str, int], str | None] = {}
        self._uses: dict[str, dict[Scope, list[cst.Name]]] = {}
        self._imports: dict[Variable, list[Binding]] = {}
        self._bound_again: dict[Variable, bool] = {}  #: whether an imported name is bound otherwise as well

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

    def home_of(self, name: cst.Name) -> Scope | None:
        """The scope that binds this name where it is used."""
        try:
            return self._homes[name]
        except KeyError:
            found = self._homes[name] = self.scope_with(name.value, self._tree.scope_of(name))
            return found

    def bindings(self, name: cst.Name) -> list[Binding]:
        """Everything in the file that may bind this name where it is used."""
        scope = self.home_of(name)
        return scope.bindings[name.value] if scope is not None else []

    def parameter(self, node: cst.CSTNode | None, *, rebound: bool = False) -> cst.Param | None:
        """The parameter that ``node`` is; with ``rebound``, also if other statements bind its name."""
        bindings = self.bindings(node) if isinstance(node, cst.Name) else []
        params = [item.node for item in bindings if isinstance(item.node, cst.Param)]
        return params[0] if len(params) == 1 and (rebound or len(bindings) == 1) else None

    def is_self(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is the first parameter of a method, whatever its name is."""
        param = self.parameter(node)
        function = owner_of(self._tree, param) if param is not None else None
        return function is not None and self._tree.class_of(function) is not None and first_parameter(function) is param

    def variable(self, node: cst.CSTNode) -> Variable | None:
        """The variable that ``node`` is: a name, or an attribute of ``self``, which belongs to its class."""
        if isinstance(node, cst.Name):
            home = self.home_of(node)
            return (home, node.value) if home is not None else None
        text = dotted_name(node)
        if text is None or not text.startswith("self."):
            return None
        owner = nearest(self._tree, node, cst.ClassDef)
        return (self._tree.scopes[owner], text.removeprefix("self.")) if owner is not None else None

    def defined(self, node: cst.CSTNode) -> Variable | None:
        """The variable that ``node`` is, in the file that defines it where it is imported, maybe under another name."""
        variable = self.variable(node)
        if variable is None or not isinstance(node, cst.Name):
            return variable
        binding = variable[0].bindings[node.value][0]
        home = self._tree.scope_of(binding.node)
        for name in (node.value, *names_bound_by(binding.node)):
            if any(item.node is binding.node for item in home.bindings.get(name, ())):
                return home, name
        return variable

    def uses_anywhere(self, variable: Variable) -> Iterator[cst.Name]:
        """The uses of a variable, also in files that import it, maybe under another name."""
        scope, name = variable
        for known in (name, *sorted(self._links.aliases.get(scope.bindings[name][0].node, ()))):
            yield from (use for use in self._tree.names.get(known, ()) if self.defined(use) == variable)

    def members(self, node: cst.CSTNode) -> list[Binding] | None:
        """For ``data.name`` what binds ``name`` in the module ``data`` of the project; None for other nodes.

        For ``MODULES[key].name`` what binds it in any of the modules.
        """
        if type(node) is not cst.Attribute:
            return None
        if node not in self._members:
            modules = self.modules(node.value)
            found = [binding for module in modules for binding in module.bindings.get(node.attr.value, ())]
            self._members[node] = found or None
        return self._members[node]

    def modules(self, node: cst.CSTNode) -> list[Scope]:
        """The scopes of the modules of the project that ``node`` may refer to."""
        parts: list[str] = []
        head = node
        while type(head) is cst.Attribute:
            parts.append(head.attr.value)
            head = head.value
        if not parts and (loaded := self._loaded_modules(head)):
            return loaded
        found: list[Scope] = []
        for name in self._items_of(head) if type(head) is cst.Subscript else (head,):
            imported = self._imported(name)
            if imported is None:
                return []
            module = self._links.module(".".join([imported[0], *reversed(parts)]), self._tree.root_of(imported[1]))
            found += [module] if module is not None else []
        return found

    def _loaded_modules(self, node: cst.CSTNode) -> list[Scope]:
        """The modules that ``node`` may be by calls which import modules of computed names."""
        if type(node) is cst.Call:
            return self._loaded.modules(node)
        bound = self._bound_before(node) if type(node) is cst.Name else []
        calls = [item.value for item in bound if type(item.value) is cst.Call and item.kind is BindingKind.ASSIGN]
        if not calls or len(calls) < len(bound) or any(item.path for item in bound):
            return []
        found = [self._loaded.modules(call) for call in calls]
        return [*dict.fromkeys(scope for scopes in found for scope in scopes)] if all(found) else []

    def _imported(self, node: cst.CSTNode) -> tuple[str, cst.CSTNode] | None:
        """The module that ``node`` is imported as, and what imports it; also by ``import_module("models.vae")``."""
        if type(node) is cst.Call:
            given = node.args[0].value if len(node.args) == 1 and last_name(node.func) == "import_module" else None
            text = value_of(given) if isinstance(given, cst.SimpleString) else None
            return (text, node) if isinstance(text, str) and self.resolve(node.func) == IMPORT_MODULE else None
        bound = self._bound_before(node) if type(node) is cst.Name else []
        if (
            len(bound) == 1
            and bound[0].kind is BindingKind.ASSIGN
            and not bound[0].path
            and type(bound[0].value) is cst.Call
        ):
            return self._imported(bound[0].value)
        if not bound or bound[0].kind is not BindingKind.IMPORT:
            return None
        if any(item.kind is not BindingKind.IMPORT or item.imported != bound[0].imported for item in bound):
            return None  # `import models.vae` and `import models.gan` both bind `models`
        return bound[0].imported, bound[0].node

    def modules_named(self, scope: Scope, parts: list[str]) -> list[Scope]:
        """The modules that ``models.net`` may be in a scope, for the parts ``models`` and ``net``."""
        imported = {
            item.imported: item.node for item in scope.bindings.get(parts[0], ()) if item.kind is BindingKind.IMPORT
        }
        found = [
            self._links.module(".".join([name, *parts[1:]]), self._tree.root_of(node))
            for name, node in imported.items()
        ]
        return [module for module in found if module is not None]

    def _items_of(self, node: cst.Subscript) -> list[cst.Name]:
        """The names that a dict which is a variable contains: ``{"vae": vae, "gan": gan}``; none if it has others."""
        bound = self.bindings(node.value) if isinstance(node.value, cst.Name) else []
        display = (
            bound[0].value if len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN and not bound[0].path else None
        )
        if not isinstance(display, cst.Dict) or len(display.elements) > _MAX_MODULES:
            return []
        values = [element.value for element in display.elements if isinstance(element, cst.DictElement)]
        names = [value for value in values if isinstance(value, cst.Name)]
        return names if len(names) == len(display.elements) else []

    @cached_property
    def calls(self) -> Mapping[str, list[cst.Call]]:
        """By canonical dotted name the calls of what has it, in order."""
        found: dict[str, list[cst.Call]] = {}
        for call in self._tree.calls:
            name = self.resolve(call.func)
            if name is not None:
                found.setdefault(name, []).append(call)
        return found

    def calls_of(self, *names: str) -> list[cst.Call]:
        """The calls of what has one of these canonical dotted names, in order."""
        return self._tree.merged(self.calls, names)

    def uses(self, binding: Binding) -> list[cst.Name]:
        """The places that may see ``binding``, other than the one that binds."""
        return [name for name in self._tree.names.get(binding.name, []) if binding in self.bindings(name)]

    def uses_in(self, scope: Scope, name: str) -> list[cst.Name]:
        """The places where ``name`` is what ``scope`` binds, in order."""
        if name not in self._uses:
            self._uses[name] = {}
            for use in self._tree.names.get(name, []):
                home = self.scope_with(name, self._tree.scope_of(use))
                if home is not None:
                    self._uses[name].setdefault(home, []).append(use)
        return self._uses[name].get(scope, [])

    def uses_of(self, scope: Scope, name: str) -> list[cst.Name | cst.Attribute]:
        """The places where ``name`` is what ``scope`` binds, also as ``module.name`` in other files."""
        bound = scope.bindings.get(name, ())
        attributes = self._tree.attributes_named(name) if self._links.has_context else []
        taken = (node for node in attributes if any(item in bound for item in self.members(node) or ()))
        return [*self.uses_in(scope, name), *taken]

    def imports_of(self, node: cst.CSTNode) -> list[Binding] | None:
        """The imports that bind the first name of the dotted expression ``node``; None if anything else may.

        Empty where the name comes from ``import *``.
        """
        base = base_of(node, {cst.Attribute})
        if not isinstance(base, cst.Name):
            return None
        found = self.bindings(base)
        return found if all(binding.kind is BindingKind.IMPORT for binding in found) else None

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
            return frozenset(canonical(f"{base}.{node.attr.value}") for base in self.alternatives(node.value))
        if isinstance(node, cst.Name):
            imported = {binding.imported for binding in self.bindings(node) if binding.kind is BindingKind.IMPORT}
            if imported:
                return frozenset(canonical(name) for name in imported)
            single = self.resolve(node)
            return frozenset() if single is None else frozenset({single})
        return frozenset()

    def _resolve(self, node: cst.CSTNode, depth: int) -> str | None:
        if type(node) is cst.Attribute:
            members = self.members(node)
            if members:
                names = {canonical(binding.imported) for binding in members}
                return names.pop() if len(names) == 1 and members[0].kind is BindingKind.IMPORT else None
            base = self._resolve(node.value, depth) if depth else self.resolve(node.value)
            return None if base is None else canonical(f"{base}.{node.attr.value}")
        if type(node) is not cst.Name or depth > _ALIAS_DEPTH:
            return None
        scope = self.home_of(node)
        if scope is None:
            return self._unbound(node, self._tree.scopes[self._tree.root_of(node)])
        if self._is_bound_again(scope, node.value):
            return self._agreement(self._bound_before(node), depth)
        key = (scope, node.value, depth)
        if key not in self._agreed:
            self._agreed[key] = self._agreement(scope.bindings[node.value], depth)
        return self._agreed[key]

    def _agreement(self, bindings: list[Binding], depth: int) -> str | None:
        """The dotted name that all ``bindings`` give; None if there is no such name."""
        found: str | None = None
        for binding in bindings:
            if binding.kind is BindingKind.IMPORT:
                name: str | None = canonical(binding.imported)
            elif binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.path:
                if is_none(binding.value):
                    continue
                name = self._resolve(binding.value, depth + 1)
            else:
                name = None
            if name is None or (found is not None and name != found):
                return None
            found = name
        return found

    def _is_bound_again(self, scope: Scope, name: str) -> bool:
        """Whether ``scope`` imports ``name`` and binds it in another way: ``data = data.load()``, ``for data in``."""
        key = (scope, name)
        if key not in self._bound_again:
            kinds = {binding.kind is BindingKind.IMPORT for binding in scope.bindings[name]}
            self._bound_again[key] = len(kinds) > 1
        return self._bound_again[key]

    def _bound_before(self, node: cst.Name) -> list[Binding]:
        """What may bind an imported name, without the other bindings that come later than ``node``.

        A binding that uses the name itself (``data = data.load()``) comes later than what it uses, and none does that
        a loop around both repeats.
        """
        scope = self.home_of(node)
        bound = scope.bindings[node.value] if scope is not None else []
        if scope is None or not self._is_bound_again(scope, node.value) or self._tree.scope_of(node) is not scope:
            return bound
        tree, at = self._tree, self._tree.index(node)
        end = bisect_left(bound, at, key=_order)
        while end > 0 and (value := bound[end - 1].value) is not None and tree.within(node, value):
            end -= 1
        loops = [above for above in tree.ancestors(node) if isinstance(above, (cst.For, cst.While))]
        others = [item for item in bound[end:] if item.kind is not BindingKind.IMPORT] if loops else []
        repeated = [item for item in others if any(tree.within(item.node, loop) for loop in loops)]
        imports = self._imports_of(scope, node.value)
        return [*bound[:end], *repeated, *imports[bisect_left(imports, at, key=_order) :]]

    def _imports_of(self, scope: Scope, name: str) -> list[Binding]:
        """The imports that bind a name, in order."""
        key = (scope, name)
        if key not in self._imports:
            self._imports[key] = [item for item in scope.bindings[name] if item.kind is BindingKind.IMPORT]
        return self._imports[key]

    def _unbound(self, node: cst.Name, scope: Scope) -> str | None:
        for module in scope.star_imports:
            if node.value in STAR_EXPORTS.get(module, ()):
                return canonical(f"{module}.{node.value}")
        if node.value == "torch" and scope.star_imports:
            return "torch"  # passed on by a module of the project
        return f"builtins.{node.value}" if node.value in _BUILTINS else None
