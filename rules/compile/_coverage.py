"""Which ``torch.compile`` always includes a piece of code, and what a compiled object contains."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.object_parts import SEALED, Object, Objects, encloses, enclosing
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import prefixes

from ._execution import Execution, expression_of
from ._sites import Compile

#: Typical names of attributes that are modules, not methods.
_SUBMODULE = re.compile(r"(layer|block|stage|trunk|head|body|stem|tower|attn|attention|mlp|features|backbone)s?_?\d*$")
#: A function that may be called.
Function: TypeAlias = cst.FunctionDef | cst.Lambda


class Coverage(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._values = forest.values
        self._objects = forest.fact(ObjectFlow)
        self._execution = forest.fact(Execution)
        self._pending: set[object] = set()
        self._covers: dict[tuple[Function, Compile | Function], Compile | None] = {}
        self._cuts = 0  #: number of times that a function was skipped because it was being analysed

    def of(self, call: cst.Call, thing: Compile | Function) -> Compile | None:
        """The compile under which ``call`` runs ``thing`` (other than itself); None if it may run eagerly."""
        called = self._objects.of(call.func)
        if SEALED in called or self._execution.checks_whether_compiling(call):
            return None
        entered = {self._execution.by_node[item] for item in called if item in self._execution.by_node}
        entered.update(site for item in called for site in self._changed_in_place.get(item, ()))
        for site in sorted(entered, key=lambda site: self._tree.index(site.node)):
            if site is thing:
                continue
            if site.in_place:
                if called & self._objects.of(expression_of(site)) and self.is_compiled_in(thing, site):
                    return site
            elif site.node in called and self.is_compiled_in(thing, site):
                return site
        if not isinstance(thing, Compile):
            decorating = self._execution.decorating.get(thing, []) if isinstance(thing, cst.FunctionDef) else []
            if decorating:
                return decorating[0]
        function = self._tree.function_of(call)
        return None if function is None else self._cover_of(function, thing)

    def _cover_of(self, function: Function, thing: Compile | Function) -> Compile | None:
        """The compile under which ``function`` always runs."""
        key = (function, thing)
        if key not in self._covers:
            cuts = self._cuts
            found = self._find_cover_of(function, thing)
            if cuts != self._cuts and self._pending:
                return found  # without a function that is being analysed
            self._covers[key] = found
        return self._covers[key]

    def _find_cover_of(self, function: Function, thing: Compile | Function) -> Compile | None:
        if function in self._pending:
            self._cuts += 1
            return None
        if isinstance(function, cst.FunctionDef):
            if self._objects.is_sealed(function):
                return None
            own = [site for site in self._execution.decorating.get(function, ()) if site is not thing]
            if own:
                return own[0]
            if not self.is_known(function):
                return None
        self._pending.add(function)
        try:
            found: dict[cst.Call, Compile] = {}
            for call in self._execution.callers(frozenset({function}), function):
                if self._tree.within(call, function):
                    continue
                outer = self.of(call, function)
                if outer is None or outer is thing:
                    return None
                found[call] = outer
            if found:
                return found[min(found, key=self._tree.index)]
            others = (site for site in self.may_contain(function) if site is not thing)
            return next((site for site in others if self.is_compiled_in(function, site)), None)
        finally:
            self._pending.discard(function)

    def is_known(self, function: cst.FunctionDef) -> bool:
        """Whether all callers of ``function`` are known: one definition; of a method, its objects are known too."""
        home = self._tree.scope_of(function).bindings.get(function.name.value, [])
        if sum(binding.kind is BindingKind.FUNCTION for binding in home) > 1:
            return False
        owner = self._tree.class_of(function)
        if owner is None:
            return True
        for use in self._tree.names.get(owner.name.value, ()):
            above = self._tree.parent(use)
            named = isinstance(above, (cst.Arg, cst.Attribute, cst.Annotation, cst.Subscript))
            if not named and not self._tree.is_called(use):
                return False
        compiled = self._all_contents
        return all(
            instance in compiled or next(self._execution.callers(frozenset({instance}), instance), None) is not None
            for instance in self._objects.instances(owner)
        )

    @cached_property
    def _all_contents(self) -> set[Object]:
        """All objects that any site compiles, and the objects whose methods are compiled."""
        return set().union(*self._execution.contents.values(), *map(self._bound_to, self._execution.sites))

    def _bound_to(self, site: Compile) -> Objects:
        """The object whose method is compiled: ``torch.compile(model.forward)``."""
        return self._objects.of(site.target.value) if isinstance(site.target, cst.Attribute) else frozenset()

    @cached_property
    def _containing(self) -> dict[Object, list[Compile]]:
        """The sites that compile each object."""
        found = defaultdict(list)
        for site, contents in self._execution.contents.items():
            for item in contents:
                found[item].append(site)
        return found

    @cached_property
    def _changed_in_place(self) -> dict[Object, list[Compile]]:
        """The sites that compile each object in place."""
        found = defaultdict(list)
        for site in self._execution.sites:
            if site.in_place:
                for item in self._objects.of(expression_of(site)):
                    found[item].append(site)
        return found

    def may_contain(self, thing: Compile | Function) -> Sequence[Compile]:
        """The sites that may include ``thing``, in order: all others certainly do not."""
        contained: set[Object]
        changed: Objects = frozenset()
        if not isinstance(thing, Compile):
            contained = {thing}
        elif isinstance(thing.target, cst.FunctionDef):
            contained = {thing.target}
        else:
            changed = self._objects.of(thing.target)
            if (thing.in_place or changed) and changed <= self._execution.by_node.keys():
                return self._execution.sites
            contained = {thing.node, *self._homes(thing)}
            if thing.in_place:
                contained |= {outer for item in changed for outer in (item, *enclosing(item))}
        found = {site for item in contained for site in self._containing.get(item, ())}
        found.update(site for item in changed for site in self._changed_in_place.get(item, ()))
        return sorted(found, key=lambda site: self._tree.index(site.node))

    def is_compiled_in(self, thing: Compile | Function, site: Compile) -> bool:
        """Whether ``site`` compiles ``thing``, or something that contains it."""
        if thing is site:
            return False
        contents = self._execution.contents[site]
        if not isinstance(thing, Compile):
            return thing in contents
        if isinstance(thing.target, cst.FunctionDef):
            return thing.target in contents and not isinstance(site.target, cst.FunctionDef)
        own = self._objects.of(thing.target)
        if thing.in_place:
            if site.in_place and own == self._objects.of(site.target):
                return self._tree.index(thing.node) < self._tree.index(site.node)  # the last one takes precedence
            inside = own < contents or all(any(encloses(outer, item) for outer in contents) for item in own)
            return (
                bool(own) and inside and not own >= self._objects.of(expression_of(site)) - set(self._execution.by_node)
            )
        if site.in_place:
            return bool(own) and self._objects.of(site.target) >= own - set(self._execution.by_node)
        return thing.node in contents or any(home in contents for home in self._homes(thing))

    @cached_property
    def _targets(self) -> dict[Object, list[cst.BaseExpression]]:
        """Where the file stores each thing that is compiled."""
        found = defaultdict(list)
        for target, value, _ in self._tree.stores:
            for item in self._objects.of(value):
                if item in self._execution.by_node:
                    found[item].append(target)
        return found

    def _homes(self, inner: Compile) -> Iterator[Object]:
        """The objects of unknown classes that store the result and certainly run it when they are called."""
        for target in self._targets.get(inner.node, ()):
            if isinstance(target, cst.Attribute) and target.attr.value != "forward":
                if self._values.of(target).kind is not Kind.MODULE and not _SUBMODULE.search(target.attr.value):
                    continue
            for prefix in prefixes(target):
                for item in self._objects.of(prefix):
                    if not isinstance(item, str) and self._objects.class_of(item) is None:
                        yield item
