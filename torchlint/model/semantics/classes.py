"""Classes of a program: what they derive from, their methods, and which constructor makes their objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.semantics.knowledge import DATA_LOADER, Kind
from torchlint.model.semantics.names import Names, Variable
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.abstract import is_abstract
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.parameters import class_parameter
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree

#: Of a class with more bases, the farthest are unknown.
_MAX_LINEAGE = 64
#: A method that more derived classes override than this is taken for the one of the class itself.
_MAX_OVERRIDES = 16

#: Classes of the standard library that give those derived from them nothing to call.
_PLAIN_BASES = frozenset({"builtins.object", "abc.ABC", "typing.NamedTuple", "typing.Generic", "typing.Protocol"})

#: What is bound to a name, or the class that a class method is given.
_Referred: TypeAlias = tuple[list[cst.FunctionDef | cst.ClassDef], cst.ClassDef | None]


class Classes:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._lineages: dict[cst.CSTNode, tuple[cst.ClassDef, ...]] = {}
        self._overrides: dict[tuple[cst.CSTNode, str], list[cst.FunctionDef]] = {}
        self._referred: dict[tuple[Scope, str], _Referred] = {}
        self._choices: dict[Variable, list[cst.BaseExpression]] = {}
        self._base_names: dict[cst.ClassDef, tuple[str, ...]] = {}

    def named(self, node: cst.CSTNode) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions and classes that a name, or a member of a module, refers to.

        ``cls`` of a class method refers to its class and to those derived from it.
        """
        found, given = self._referred_to(node)
        return found if given is None else [given, *self.derived(given)]

    def _referred_to(self, node: cst.CSTNode) -> _Referred:
        """The functions and classes that are bound to a name, or the class that it is given as ``cls``."""
        if isinstance(node, cst.Attribute):
            return defined(self._names.members(node) or []), None
        scope = self._names.home_of(node) if isinstance(node, cst.Name) else None
        if scope is None or not isinstance(node, cst.Name):
            return [], None
        key = (scope, node.value)
        if key not in self._referred:
            bindings = scope.bindings[node.value]
            found = defined(bindings)
            alone = len(bindings) == 1 and not found
            self._referred[key] = found, class_parameter(self._tree, bindings[0].node) if alone else None
        return self._referred[key]

    def makes_loader(self, call: cst.Call) -> bool:
        """Whether ``call`` makes a loader by a variable: ``make = DataLoader if cached else InfiniteLoader``.

        The default of a parameter counts, too: ``def load(dataset, klass=DataLoader)``.
        """
        choices = self.choices(call.func)
        return any(self._names.resolve(item) == DATA_LOADER for item in choices) and all(map(self._is_loader, choices))

    def _is_loader(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is ``DataLoader``, or a class that derives from it."""
        if self._names.resolve(node) == DATA_LOADER:
            return True
        found = self.named(node)
        return bool(found) and all(
            isinstance(item, cst.ClassDef) and DATA_LOADER in self.base_names(item) for item in found
        )

    def choices(self, func: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The classes or functions that a variable may be, or a parameter by default; empty if unknown."""
        variable = self._names.variable(func) if isinstance(func, cst.Name) else None
        if variable is None:
            return []
        if variable not in self._choices:
            scope, name = variable
            self._choices[variable] = self._find_choices(scope.bindings[name])
        return self._choices[variable]

    def _find_choices(self, bindings: Iterable[Binding]) -> list[cst.BaseExpression]:
        found: list[cst.BaseExpression] = []
        waiting: list[cst.BaseExpression | None] = []
        for binding in bindings:
            if binding.kind is BindingKind.PARAM and isinstance(binding.node, cst.Param):
                waiting.append(binding.node.default)
            else:
                waiting.append(binding.value if binding.kind is BindingKind.ASSIGN and not binding.path else None)
        while waiting:
            item = waiting.pop()
            if isinstance(item, cst.IfExp):
                waiting += [item.orelse, item.body]
            elif isinstance(item, (cst.Name, cst.Attribute)):
                found.append(item)
            else:
                return []
        return found

    def derived(self, definition: cst.ClassDef) -> list[cst.ClassDef]:
        """The classes that derive from a class, directly or not, in order."""
        return self._derived.get(definition, [])

    def lineage(self, definition: cst.CSTNode) -> tuple[cst.ClassDef, ...]:
        """The class and those of its bases that the file defines, nearest first, 64 at most."""
        known = self._lineages.get(definition)
        if known is not None:
            return known
        found: dict[cst.ClassDef, None] = {}
        waiting = deque([definition])
        while waiting and len(found) < _MAX_LINEAGE:
            current = waiting.popleft()
            if not isinstance(current, cst.ClassDef) or current in found:
                continue
            found[current] = None
            for base in current.bases:
                named, given = self._referred_to(_without_parameters(base.value))
                waiting.extend(named if given is None else [given])  # of `class Inner(cls)`, at least that
        self._lineages[definition] = tuple(found)
        return self._lineages[definition]

    def scopes_with(self, definition: cst.CSTNode, name: str) -> list[Scope]:
        """The classes that bind a member of an object: the nearest in the lineage, else the derived ones, if few."""

        def binding(classes: Sequence[cst.ClassDef]) -> list[Scope]:
            scopes = [self._tree.scopes[item] for item in classes]
            return [scope for scope in scopes if name in scope.attributes or name in scope.bindings]

        nearest = binding(self.lineage(definition))[:1]
        if nearest or not isinstance(definition, cst.ClassDef):
            return nearest
        derived = self.derived(definition)
        return binding(derived) if len(derived) <= _MAX_OVERRIDES else []

    def base_names(self, definition: cst.ClassDef) -> tuple[str, ...]:
        """Dotted names of the imported classes that ``definition`` derives from, in the file or beyond."""
        known = self._base_names.get(definition)
        if known is None:
            known = self._base_names[definition] = tuple(
                name
                for current in self.lineage(definition)
                for base in current.bases
                for name in sorted(self._names.alternatives(_without_parameters(base.value)))
            )
        return known

    def is_known_whole(self, definition: cst.ClassDef, known_bases: frozenset[str] = frozenset()) -> bool:
        """Whether all that the class inherits is in the file: its bases are classes of the file, or plain.

        Or ``known_bases``, given by their canonical names.
        """
        lineage = self.lineage(definition)
        return len(lineage) < _MAX_LINEAGE and all(
            self.named(_without_parameters(base.value)) or (known and known <= _PLAIN_BASES | known_bases)
            for current in lineage
            for base in current.bases
            for known in [self._names.alternatives(_without_parameters(base.value))]
        )

    def of_known_kind(self, made: Mapping[cst.FunctionDef | cst.ClassDef, Value]) -> list[Value]:
        """What a call gives by each of its callees, without objects of unknown kind: a base of their class is unseen.

        All of them if there are no others.
        """
        found = [
            value
            for item, value in made.items()
            if value.kind is not Kind.OTHER or isinstance(item, cst.FunctionDef) or self.is_known_whole(item)
        ]
        return found or [*made.values()]

    def method(self, definition: cst.CSTNode, name: str) -> cst.FunctionDef | None:
        """The method called ``name`` of a class or of its bases in the file."""
        for current in self.lineage(definition):
            for binding in reversed(self._tree.scopes[current].bindings.get(name, [])):
                if isinstance(binding.node, cst.FunctionDef):
                    return binding.node
        return None

    def methods(self, definition: cst.ClassDef, name: str) -> list[cst.FunctionDef]:
        """The methods called ``name`` that an instance of a class or of one derived from it may have.

        A method that only says that derived classes must have it is left out if they do.
        """
        known = self._overrides.get((definition, name))
        if known is None:
            known = self._overrides[definition, name] = self._find_methods(definition, name)
        return known

    def _find_methods(self, definition: cst.ClassDef, name: str) -> list[cst.FunctionDef]:
        own = self.method(definition, name)
        found = {method: None for item in self.derived(definition) if (method := self.method(item, name))}
        if own is None:
            return list(found) if len(found) <= _MAX_OVERRIDES else []
        others = [method for method in found if method is not own]
        if not others or len(others) > _MAX_OVERRIDES:
            return [own]
        return others if is_abstract(own) else [own, *others]

    def overriding(self, func: cst.Attribute, found: list[cst.FunctionDef | cst.ClassDef]) -> list[cst.FunctionDef]:
        """The methods that ``self.update`` also refers to if more classes override it than :meth:`methods` gives."""
        only = found[0] if len(found) == 1 and is_attribute_of_self(func) else None
        owner = self._tree.class_of(only) if isinstance(only, cst.FunctionDef) else None
        if only is None or owner is None or len(self.derived(owner)) <= _MAX_OVERRIDES:
            return []
        methods = dict.fromkeys(self.method(item, only.name.value) for item in self.derived(owner))
        others = [method for method in methods if method is not None and method is not only]
        return others if len(others) > _MAX_OVERRIDES else []

    @cached_property
    def _derived(self) -> dict[cst.CSTNode, list[cst.ClassDef]]:
        """By class those that derive from it, directly or not, in order."""
        found: dict[cst.CSTNode, list[cst.ClassDef]] = {}
        for definition in self._tree.classes:
            for base in self.lineage(definition)[1:]:
                found.setdefault(base, []).append(definition)
        return found

    @cached_property
    def made_with(self) -> dict[cst.FunctionDef, tuple[list[cst.ClassDef], list[cst.FunctionDef]]]:
        """By ``__init__`` the classes whose objects it makes, and those of derived classes that override it."""
        found: dict[cst.FunctionDef, tuple[list[cst.ClassDef], list[cst.FunctionDef]]] = {}
        for item in self._tree.classes:
            inits = dict.fromkeys(self.method(base, "__init__") for base in self.lineage(item))
            order = [init for init in inits if init is not None]
            if order:
                found.setdefault(order[0], ([], []))[0].append(item)
            if len(order) > 1 and self._tree.class_of(order[0]) is item:
                found.setdefault(order[1], ([], []))[1].append(order[0])
        return found


def defined(bindings: list[Binding]) -> list[cst.FunctionDef | cst.ClassDef]:
    """The functions and classes that are bound."""
    return [
        binding.node
        for binding in bindings
        if isinstance(binding.node, (cst.FunctionDef, cst.ClassDef))
        and binding.kind in (BindingKind.FUNCTION, BindingKind.CLASS)
    ]


def _without_parameters(base: cst.BaseExpression) -> cst.BaseExpression:
    """``Generic`` of ``Generic[T]``."""
    return base.value if isinstance(base, cst.Subscript) else base
