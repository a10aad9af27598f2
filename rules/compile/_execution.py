"""Which calls run the result of ``torch.compile``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.object_parts import Object, Objects
from torchlint.model.semantics.objects import ObjectFlow
from torchlint.model.semantics.stores import Stores
from torchlint.model.semantics.version_checks import VersionChecks

from ._sites import Compile, CompileSites

_COMPILING = frozenset(
    {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_scripting", "is_tracing"}
)


class Execution(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values
        self._objects = module.fact(ObjectFlow)
        self._stores = module.fact(Stores)
        self._version_checks = module.fact(VersionChecks)
        self.sites = module.fact(CompileSites).for_speed

    @cached_property
    def by_node(self) -> dict[Object, Compile]:
        """The site at each call or decorator that compiles."""
        return {site.node: site for site in self.sites}

    @cached_property
    def decorating(self) -> dict[cst.FunctionDef, list[Compile]]:
        """The sites that decorate each function."""
        found = defaultdict(list)
        for site in self.sites:
            if isinstance(site.target, cst.FunctionDef):
                found[site.target].append(site)
        return found

    @cached_property
    def contents(self) -> dict[Compile, Objects]:
        """The contents of each site: the compiled objects, and the functions that run when these are called."""
        return {site: self.contents_of(site) for site in self.sites}

    def contents_of(self, site: Compile) -> Objects:
        """The contents of a site: the compiled objects, and the functions that run when these are called."""
        if isinstance(site.target, cst.FunctionDef):
            return frozenset({site.target})
        return self.called_through(self._objects.of(site.target))

    def called_through(self, found: Objects) -> Objects:
        """``found``, and the functions that run when an instance of a class of the file is called."""
        entered: set[Object] = set(found)
        for item in found:
            if self._objects.class_of(item) is not None:
                for name in ("forward", "__call__"):
                    entered |= {one for one in self._objects.attribute([item], name) if not isinstance(one, tuple)}
        return frozenset(entered)

    @cached_property
    def _executed(self) -> dict[cst.Call, Objects]:
        """For each call, what it runs: the compiled objects and functions that are called or passed on to be called."""
        found: dict[cst.Call, Objects] = {}
        for call in self._tree.calls:
            if self._names.resolve(call.func) == "torch.compile" or call in self.by_node:
                continue
            entered = self.called_through(self._objects.of(call.func)) if self._is_known(call.func) else frozenset()
            if not self._objects.is_holder(call) and not self._definitions.called(call, self._values):
                entered |= self._handed(call)
            if entered:
                found[call] = entered
        return found

    def _is_known(self, func: cst.BaseExpression) -> bool:
        """Whether the program may define what ``func`` refers to, or names it elsewhere; not ``x.view``."""
        return not isinstance(func, cst.Attribute) or func.attr.value in self._known_names

    @cached_property
    def _known_names(self) -> frozenset[str]:
        functions = {function.name.value for function in self._tree.functions}
        read = set()
        for node in self._tree.attributes:
            above = self._tree.parent(node)
            if not isinstance(above, cst.Call) or above.func is not node:
                read.add(node.attr.value)
        return frozenset(functions | read | self._stores.object_names)

    def _handed(self, call: cst.Call) -> Objects:
        """The functions that a call is given, and the other objects."""
        found: set[Object] = set()
        for argument in call.args:
            passed = self._objects.of(argument.value)
            if any(isinstance(item, (cst.FunctionDef, cst.Lambda)) for item in passed):
                found |= {item for item in passed if isinstance(item, (cst.FunctionDef, cst.Lambda, cst.Call))}
        return frozenset(found)

    def run_by(self, call: cst.Call) -> Objects:
        """The compiled objects and the functions of the file that a call runs."""
        return self._executed.get(call, frozenset())

    @cached_property
    def callers(self) -> dict[Object, list[cst.Call]]:
        """The calls that run each object or function."""
        found = defaultdict(list)
        for call, entered in self._executed.items():
            for item in entered:
                found[item].append(call)
        return found

    @cached_property
    def _runs(self) -> dict[Compile, list[cst.Call]]:
        """The calls that run the contents of a site."""
        found: dict[Compile, list[cst.Call]] = {}
        for site in self.sites:
            if site.in_place:
                targets = self._objects.of(expression_of(site))
                entering = {call for item in targets for call in self.callers.get(item, ())}
                calls = sorted(entering, key=self._tree.index)
            elif isinstance(site.target, cst.FunctionDef):
                calls = self.callers.get(site.target, [])
            else:
                calls = self.callers.get(site.node, [])
                above = self._tree.parent(site.node)
                if isinstance(above, cst.Call) and above.func is site.node and above not in calls:
                    calls = [*calls, above]
            found[site] = calls
        return found

    def runs(self, site: Compile) -> list[cst.Call]:
        """The calls that run what ``site`` compiles."""
        return self._runs[site]

    def run_in(self, node: cst.CSTNode) -> Iterator[tuple[cst.Call, Compile]]:
        """The calls inside ``node`` that run something compiled outside of it, and the place where it is compiled."""
        for site in self.sites:
            if not self._tree.within(site.node, node):
                yield from ((call, site) for call in self._runs[site] if self._tree.within(call, node))

    def checks_whether_compiling(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in, or after, a branch that checks whether the code is being compiled."""
        if not self._checks_anywhere:
            return False
        tests = [above.test for above in self._tree.ancestors(node) if isinstance(above, (cst.If, cst.IfExp))]
        for test in (*tests, *self._version_checks.left_before(node)):
            for part in self._tree.nodes_in(test):
                name = part.attr if isinstance(part, cst.Attribute) else part
                if isinstance(name, cst.Name) and name.value in _COMPILING:
                    return True
        return False

    @cached_property
    def _checks_anywhere(self) -> bool:
        """Whether anything in the file checks whether code is being compiled."""
        attributes = {node.attr.value for node in self._tree.attributes}
        return not _COMPILING.isdisjoint(self._tree.names) or not _COMPILING.isdisjoint(attributes)


def expression_of(site: Compile) -> cst.CSTNode | None:
    """The expression that is compiled; None for a decorated function."""
    return None if isinstance(site.target, cst.FunctionDef) else site.target
