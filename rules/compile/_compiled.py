"""What ``torch.compile`` is applied to, and which of it runs only inside something else that is compiled."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.gates import Gates
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.object_parts import SEALED, Object, Objects, encloses, enclosing, prefixes
from torchlint.model.semantics.objects import ObjectFlow

OPTIONS = frozenset({"fullgraph", "dynamic", "backend", "mode", "options", "disable"})
#: Back ends that run the code as it is, for debugging and for tests: ``eager``, ``aot_eager_decomp_partition``.
EAGER_BACKENDS = re.compile(r"(pre_dispatch_|aot_)?eager(_\w+)?")
#: How attributes that are modules, and no methods, tend to be called.
_SUBMODULE = re.compile(r"(layer|block|stage|trunk|head|body|stem|tower|attn|attention|mlp|features|backbone)s?_?\d*$")
_COMPILING = frozenset(
    {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_scripting", "is_tracing"}
)


@dataclass(frozen=True, eq=False)
class Compile:
    """One place that compiles something: a call, a decorator, or ``x.compile()``."""

    node: cst.Call | cst.Decorator
    call: cst.Call | None  #: the call with the options; None for a decorator without parentheses
    target: cst.BaseExpression | cst.FunctionDef  #: what is compiled
    in_place: bool = False  #: ``x.compile()``

    @property
    def options(self) -> list[cst.Arg]:
        """The arguments other than what is compiled."""
        return [] if self.call is None else [item for item in self.call.args if item.value is not self.target]

    def option(self, name: str) -> cst.Arg | None:
        """The argument passed by that keyword."""
        return next((item for item in self.options if item.keyword is not None and item.keyword.value == name), None)

    @property
    def debugging(self) -> cst.Arg | None:
        """The argument by which the code runs as it is: ``backend="eager"``, ``disable=True``."""
        disable, backend = self.option("disable"), self.option("backend")
        if disable is not None and isinstance(disable.value, cst.Name) and disable.value.value == "True":
            return disable
        if backend is not None and isinstance(backend.value, cst.SimpleString):
            text = backend.value.evaluated_value
            return backend if isinstance(text, str) and EAGER_BACKENDS.fullmatch(text) else None
        return None


#: A function that may be called.
Function = cst.FunctionDef | cst.Lambda


class Compiled:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values
        self._objects = module.fact(ObjectFlow)
        self._gates = module.fact(Gates)
        self._pending: set[object] = set()
        self._covers: dict[tuple[Function, Compile | Function], Compile | None] = {}
        self._cuts = 0  #: how many times a function was left out because it was being looked at

    # -- what is compiled

    @cached_property
    def sites(self) -> list[Compile]:
        """Every place of the file that compiles something for speed, in order."""
        return [site for site in self.all_sites if _is_for_speed(site)]

    @cached_property
    def all_sites(self) -> list[Compile]:
        """Every place of the file that compiles something, be it only for debugging, in order."""
        found = [*self._calls(), *self._methods(), *self._decorators()]
        return sorted(found, key=lambda site: self._tree.index(site.node))

    def _calls(self) -> Iterator[Compile]:
        for call in self._tree.calls:
            if self._names.resolve(call.func) != "torch.compile" or any(item.star == "*" for item in call.args):
                continue
            above = self._tree.parent(call)
            given = [item for item in call.args if item.keyword is None or item.keyword.value == "model"]
            if given and not given[0].star:
                yield Compile(call, call, given[0].value)
            elif isinstance(above, cst.Call) and above.func is call and above.args and not above.args[0].star:
                yield Compile(above, call, above.args[0].value)

    def _methods(self) -> Iterator[Compile]:
        for call in self._tree.calls:
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value != "compile" or self._names.resolve(func):
                continue
            if any(item.star == "*" or (item.keyword and item.keyword.value not in OPTIONS) for item in call.args):
                continue
            if any(item.keyword is None and not item.star for item in call.args):
                continue
            receiver = self._values.of(func.value)
            alone = isinstance(self._tree.parent(call), cst.Expr)
            if receiver.kind is not Kind.MODULE and not (alone and receiver.kind is Kind.UNKNOWN):
                continue
            if receiver.definition is not None and self._definitions.method(receiver.definition, "compile"):
                continue
            yield Compile(call, call, func.value, in_place=True)

    def _decorators(self) -> Iterator[Compile]:
        for function in self._tree.functions:
            for decorator in function.decorators:
                node = decorator.decorator
                call = node if isinstance(node, cst.Call) else None
                if self._names.resolve(node if call is None else call.func) == "torch.compile":
                    if call is None or not any(item.keyword is None and not item.star for item in call.args):
                        yield Compile(decorator, call, function)

    def runs(self, site: Compile) -> list[cst.Call]:
        """The calls that run what ``site`` compiles."""
        return self._runs[site]

    def run_in(self, node: cst.CSTNode) -> Iterator[tuple[cst.Call, Compile]]:
        """The calls inside ``node`` that run what is compiled outside of it, and where that is."""
        for site in self.sites:
            if not self._tree.within(site.node, node):
                yield from ((call, site) for call in self._runs[site] if self._tree.within(call, node))

    def contents_of(self, site: Compile) -> Objects:
        """What a site compiles: the objects, and the functions that run when these are called."""
        if isinstance(site.target, cst.FunctionDef):
            return frozenset({site.target})
        return self._called_through(self._objects.of(site.target))

    def run_by(self, call: cst.Call) -> Objects:
        """The compiled objects and the functions of the file that a call runs."""
        return self._executed.get(call, frozenset())

    def asks_whether_compiling(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` stands in, or behind, a branch that asks whether the code is being compiled."""
        return self._knows_it_is_compiled(node)

    # -- what is compiled for nothing

    def redundant(self) -> Iterator[tuple[Compile, Compile]]:
        """What is compiled although it only ever runs inside something compiled: it, and the compile that counts."""
        if len(self.sites) < 2:
            return
        for site in self.sites:
            outer = self._outer(site)
            if outer is not None:
                yield site, outer

    def _outer(self, inner: Compile) -> Compile | None:
        found: list[Compile] = []
        upper = self._upper_decorator(inner)
        if upper is not None:
            return upper
        if isinstance(inner.target, cst.FunctionDef) and not self._is_known(inner.target):
            return None
        for call in self._runs.get(inner, ()):
            outer = self._cover(call, inner)
            if outer is None:
                return None
            found.append(outer)
        found = list(dict.fromkeys(found)) or [
            site for site in self._may_contain(inner) if self._lies_under(inner, site)
        ]
        if any(site is inner or self._lies_under(site, inner) for site in found):
            return None  # each within the other: they are not told apart
        if not found or not all(self._always_with(inner, site) for site in found):
            return None
        return min(found, key=lambda site: self._tree.index(site.node))

    def _upper_decorator(self, inner: Compile) -> Compile | None:
        if not isinstance(inner.target, cst.FunctionDef):
            return None
        others = [site for site in self._decorating[inner.target] if site is not inner]
        return next((site for site in others if self._tree.index(site.node) < self._tree.index(inner.node)), None)

    def _always_with(self, inner: Compile, outer: Compile) -> bool:
        """Whether ``outer`` is in force whenever ``inner`` is, as far as conditions in the file tell."""
        if self._gates.alternative(inner.node, outer.node) or not self._may_meet(inner.node, outer.node):
            return False
        return self._conditions(outer.node) <= self._conditions(inner.node)

    def _may_meet(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether some run of the file may pass both places: one calls the other, or something calls both."""
        paths = [self._callers_of(node) for node in (one, other)]
        return None in paths[0] or None in paths[1] or bool(paths[0] & paths[1])

    def _callers_of(self, node: cst.CSTNode) -> set[Function | None]:
        """The functions around ``node`` and those that call them, at any depth; None for the level of the module."""
        found: set[Function | None] = set()
        waiting = [self._tree.function_of(node)]
        while waiting:
            function = waiting.pop()
            if function in found:
                continue
            found.add(function)
            if isinstance(function, cst.Lambda):
                waiting.append(self._tree.function_of(function))
            elif function is not None:
                outer = self._tree.function_of(function)
                waiting.extend([outer] if outer is not None else [])
                calls = self._definitions.callers(function, self._values).calls
                waiting.extend(self._tree.function_of(call) for call in calls)
        return found

    def _conditions(self, node: cst.CSTNode) -> frozenset[tuple[str, bool]]:
        found = set()
        child = node
        for above in self._tree.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test and not self._platform(above.test):
                found.add((self._tree.root.code_for_node(above.test), child is above.body))
            child = above
        return frozenset(found)

    def _platform(self, test: cst.BaseExpression) -> bool:
        """``if __name__ == "__main__"``, ``if hasattr(torch, "compile")``, ``if torch.cuda.is_available()``."""
        if self._gates.probes(test):
            return True
        return any(
            (isinstance(node, cst.Name) and node.value == "__name__")
            or (isinstance(node, cst.Call) and self._names.resolve(node.func) == "torch.cuda.is_available")
            for node in self._tree.nodes_in(test)
        )

    # -- what runs where

    @cached_property
    def _by_node(self) -> dict[Object, Compile]:
        return {site.node: site for site in self.sites}

    @cached_property
    def _decorating(self) -> dict[cst.FunctionDef, list[Compile]]:
        found = defaultdict(list)
        for site in self.sites:
            if isinstance(site.target, cst.FunctionDef):
                found[site.target].append(site)
        return found

    @cached_property
    def _contents(self) -> dict[Compile, Objects]:
        """What each site compiles: the objects, and the functions that run when these are called."""
        return {site: self.contents_of(site) for site in self.sites}

    def _called_through(self, found: Objects) -> Objects:
        """``found``, and what calling an instance of a class of the file runs."""
        entered: set[Object] = set(found)
        for item in found:
            if self._objects.class_of(item) is not None:
                for name in ("forward", "__call__"):
                    entered |= {one for one in self._objects.attribute([item], name) if not isinstance(one, tuple)}
        return frozenset(entered)

    @cached_property
    def _executed(self) -> dict[cst.Call, Objects]:
        """For each call what it runs: compiled objects and functions, of what is called or passed on to be called."""
        found: dict[cst.Call, Objects] = {}
        for call in self._tree.calls:
            if self._names.resolve(call.func) == "torch.compile" or call in self._by_node:
                continue
            entered = self._called_through(self._objects.of(call.func))
            if not self._definitions.called(call, self._values) and not self._objects.is_holder(call):
                for argument in call.args:
                    passed = self._objects.of(argument.value)
                    if any(isinstance(item, (cst.FunctionDef, cst.Lambda)) for item in passed):
                        entered |= {
                            item for item in passed if isinstance(item, (cst.FunctionDef, cst.Lambda, cst.Call))
                        }
            if entered:
                found[call] = entered
        return found

    @cached_property
    def _callers(self) -> dict[Object, list[cst.Call]]:
        found = defaultdict(list)
        for call, entered in self._executed.items():
            for item in entered:
                found[item].append(call)
        return found

    @cached_property
    def _runs(self) -> dict[Compile, list[cst.Call]]:
        """The calls that run what a site has compiled."""
        found: dict[Compile, list[cst.Call]] = {}
        for site in self.sites:
            if site.in_place:
                targets = self._objects.of(_expression(site))
                entering = {call for item in targets for call in self._callers.get(item, ())}
                calls = sorted(entering, key=self._tree.index)
            elif isinstance(site.target, cst.FunctionDef):
                calls = self._callers.get(site.target, [])
            else:
                calls = self._callers.get(site.node, [])
                above = self._tree.parent(site.node)
                if isinstance(above, cst.Call) and above.func is site.node and above not in calls:
                    calls = [*calls, above]
            found[site] = calls
        return found

    # -- coverage

    def _cover(self, call: cst.Call, thing: Compile | Function) -> Compile | None:
        """The compile under which ``call`` runs ``thing`` (other than itself); None if it may run eagerly."""
        called = self._objects.of(call.func)
        if SEALED in called or self._knows_it_is_compiled(call):
            return None
        entered = {self._by_node[item] for item in called if item in self._by_node}
        entered.update(site for item in called for site in self._changed_in_place.get(item, ()))
        for site in sorted(entered, key=lambda site: self._tree.index(site.node)):
            if site is thing:
                continue
            if site.in_place:
                if called & self._objects.of(_expression(site)) and self._lies_under(thing, site):
                    return site
            elif site.node in called and self._lies_under(thing, site):
                return site
        if not isinstance(thing, Compile):
            decorating = self._decorating.get(thing, []) if isinstance(thing, cst.FunctionDef) else []
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
                return found  # without a function that is being looked at
            self._covers[key] = found
        return self._covers[key]

    def _find_cover_of(self, function: Function, thing: Compile | Function) -> Compile | None:
        if function in self._pending:
            self._cuts += 1
            return None
        if isinstance(function, cst.FunctionDef):
            if self._objects.is_sealed(function):
                return None
            own = [site for site in self._decorating.get(function, ()) if site is not thing]
            if own:
                return own[0]
            if not self._is_known(function):
                return None
        self._pending.add(function)
        try:
            found: list[Compile] = []
            for call in self._callers.get(function, ()):
                if self._tree.within(call, function):
                    continue
                outer = self._cover(call, function)
                if outer is None or outer is thing:
                    return None
                found.append(outer)
            if not found:
                candidates = self._may_contain(function)
                found = [site for site in candidates if site is not thing and self._lies_under(function, site)]
            return found[0] if found else None
        finally:
            self._pending.discard(function)

    def _is_known(self, function: cst.FunctionDef) -> bool:
        """Whether what runs ``function`` is seen: one definition; of a method, its objects are called or compiled."""
        home = self._tree.scope_of(function).bindings.get(function.name.value, [])
        if sum(binding.kind == "function" for binding in home) > 1:
            return False
        owner = self._tree.class_of(function)
        if owner is None:
            return True
        for use in self._tree.names.get(owner.name.value, ()):
            above = self._tree.parent(use)
            called = isinstance(above, cst.Call) and above.func is use
            if not called and not isinstance(above, (cst.Arg, cst.Attribute, cst.Annotation, cst.Subscript)):
                return False
        compiled = self._all_contents
        return all(instance in self._callers or instance in compiled for instance in self._objects.instances(owner))

    @cached_property
    def _all_contents(self) -> set[Object]:
        """What any site compiles, and the objects whose methods are compiled."""
        return set().union(*self._contents.values(), *map(self._bound_to, self.sites))

    def _bound_to(self, site: Compile) -> Objects:
        """The object whose method is compiled: ``torch.compile(model.forward)``."""
        return self._objects.of(site.target.value) if isinstance(site.target, cst.Attribute) else frozenset()

    @cached_property
    def _containing(self) -> dict[Object, list[Compile]]:
        """The sites that compile each object."""
        found = defaultdict(list)
        for site, contents in self._contents.items():
            for item in contents:
                found[item].append(site)
        return found

    @cached_property
    def _changed_in_place(self) -> dict[Object, list[Compile]]:
        """The sites that compile each object in place."""
        found = defaultdict(list)
        for site in self.sites:
            if site.in_place:
                for item in self._objects.of(_expression(site)):
                    found[item].append(site)
        return found

    def _may_contain(self, thing: Compile | Function) -> Sequence[Compile]:
        """The sites that ``thing`` may lie under, in order: all others compile nothing of it."""
        contained: set[Object]
        changed: Objects = frozenset()
        if not isinstance(thing, Compile):
            contained = {thing}
        elif isinstance(thing.target, cst.FunctionDef):
            contained = {thing.target}
        else:
            changed = self._objects.of(thing.target)
            if (thing.in_place or changed) and changed <= self._by_node.keys():
                return self.sites
            contained = {thing.node, *self._homes(thing)}
            if thing.in_place:
                contained |= {outer for item in changed for outer in (item, *enclosing(item))}
        found = {site for item in contained for site in self._containing.get(item, ())}
        found.update(site for item in changed for site in self._changed_in_place.get(item, ()))
        return sorted(found, key=lambda site: self._tree.index(site.node))

    def _lies_under(self, thing: Compile | Function, site: Compile) -> bool:
        """Whether ``site`` compiles ``thing``, or something that holds it."""
        if thing is site:
            return False
        contents = self._contents[site]
        if not isinstance(thing, Compile):
            return thing in contents
        if isinstance(thing.target, cst.FunctionDef):
            return thing.target in contents and not isinstance(site.target, cst.FunctionDef)
        own = self._objects.of(thing.target)
        if thing.in_place:
            if site.in_place and own == self._objects.of(site.target):
                return self._tree.index(thing.node) < self._tree.index(site.node)  # the last one counts
            inside = own < contents or all(any(encloses(outer, item) for outer in contents) for item in own)
            return bool(own) and inside and not own >= self._objects.of(_expression(site)) - set(self._by_node)
        if site.in_place:
            return bool(own) and self._objects.of(site.target) >= own - set(self._by_node)
        return thing.node in contents or any(home in contents for home in self._homes(thing))

    @cached_property
    def _targets(self) -> dict[Object, list[cst.BaseExpression]]:
        """Where the file stores each thing that is compiled."""
        found = defaultdict(list)
        for target, value, _ in self._tree.stores:
            for item in self._objects.of(value):
                if item in self._by_node:
                    found[item].append(target)
        return found

    def _homes(self, inner: Compile) -> Iterator[Object]:
        """The objects of unknown make into which the result is put where calling them is sure to run it."""
        for target in self._targets.get(inner.node, ()):
            if isinstance(target, cst.Attribute) and target.attr.value != "forward":
                if self._values.of(target).kind is not Kind.MODULE and not _SUBMODULE.search(target.attr.value):
                    continue
            for prefix in prefixes(target):
                for item in self._objects.of(prefix):
                    if not isinstance(item, str) and self._objects.class_of(item) is None:
                        yield item

    def _knows_it_is_compiled(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` stands in, or behind, a branch that asks whether the code is being compiled."""
        if not self._asks_anywhere:
            return False
        tests = [above.test for above in self._tree.ancestors(node) if isinstance(above, (cst.If, cst.IfExp))]
        for test in (*tests, *self._gates.left_before(node)):
            for part in self._tree.nodes_in(test):
                name = part.attr if isinstance(part, cst.Attribute) else part
                if isinstance(name, cst.Name) and name.value in _COMPILING:
                    return True
        return False

    @cached_property
    def _asks_anywhere(self) -> bool:
        """Whether anything in the file asks whether code is being compiled."""
        attributes = {node.attr.value for node in self._tree.attributes}
        return not _COMPILING.isdisjoint(self._tree.names) or not _COMPILING.isdisjoint(attributes)


def _expression(site: Compile) -> cst.CSTNode | None:
    return None if isinstance(site.target, cst.FunctionDef) else site.target


def _is_for_speed(site: Compile) -> bool:
    disable = site.option("disable")
    if disable is not None and not (isinstance(disable.value, cst.Name) and disable.value.value == "False"):
        return False
    return site.debugging is None
