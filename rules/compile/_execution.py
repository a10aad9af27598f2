"""Which calls run the result of ``torch.compile``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.program.stores import Stores
from torchlint.model.program.version_checks import VersionChecks
from torchlint.model.semantics.object_parts import Object, Objects

from ._sites import Compile, CompileSites

_COMPILING = frozenset(
    {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_scripting", "is_tracing"}
)


class Execution(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._objects = forest.fact(ObjectFlow)
        self._stores = forest.fact(Stores)
        self._version_checks = forest.fact(VersionChecks)
        self.sites = forest.fact(CompileSites).for_speed
        self._run_by: dict[cst.Call, Objects] = {}
        self._callers: dict[cst.CSTNode, dict[Object, list[cst.Call]]] = {}

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
                    entered |= {
                        one for one in self._objects.attribute(frozenset({item}), name) if not isinstance(one, tuple)
                    }
        return frozenset(entered)

    def run_by(self, call: cst.Call) -> Objects:
        """What a call runs: the compiled objects and functions that are called or passed on to be called."""
        if call not in self._run_by:
            self._run_by[call] = self._find_run_by(call)
        return self._run_by[call]

    def _find_run_by(self, call: cst.Call) -> Objects:
        if self._names.resolve(call.func) == "torch.compile" or call in self.by_node:
            return frozenset()
        entered = self.called_through(self._objects.of(call.func)) if self._is_known(call.func) else frozenset()
        if not self._objects.is_holder(call) and not self._definitions.called(call, self._values):
            entered |= self._handed(call)
        return entered

    def _is_known(self, func: cst.BaseExpression) -> bool:
        """Whether the program may define what ``func`` refers to, or names it elsewhere; not ``x.view``."""
        return not isinstance(func, cst.Attribute) or func.attr.value in self._known_names

    @cached_property
    def _known_names(self) -> frozenset[str]:
        functions = {function.name.value for function in self._tree.functions}
        return self._stores.read_names | self._stores.object_names | functions

    def _handed(self, call: cst.Call) -> Objects:
        """The functions that a call is given, and the other objects."""
        found: set[Object] = set()
        for argument in call.args:
            passed = self._objects.of(argument.value)
            if any(isinstance(item, (cst.FunctionDef, cst.Lambda)) for item in passed):
                found |= {item for item in passed if isinstance(item, (cst.FunctionDef, cst.Lambda, cst.Call))}
        return frozenset(found)

    def callers(self, items: Objects, near: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls that run one of some objects and functions, those in the file of ``near`` first."""
        own = self._tree.root_of(near)
        for root in (own, *(root for root in self._tree.roots if root is not own)):
            if root not in self._callers:
                self._callers[root] = defaultdict(list)
                for call in self._tree.calls_in(root):
                    for item in self.run_by(call):
                        self._callers[root][item].append(call)
            yield from dict.fromkeys(call for item in items for call in self._callers[root].get(item, ()))

    def runs(self, site: Compile) -> Iterator[cst.Call]:
        """The calls that run what ``site`` compiles, those in its file first."""
        above = self._called_at_once(site)
        if above is not None:
            yield above
        yield from (call for call in self.callers(self._run_for(site), site.node) if call is not above)

    def is_run_in(self, site: Compile, node: cst.CSTNode) -> bool:
        """Whether a call inside ``node`` runs what ``site`` compiles."""
        above, items = self._called_at_once(site), self._run_for(site)
        return any(call is above or not items.isdisjoint(self.run_by(call)) for call in self._tree.calls_in(node))

    def _run_for(self, site: Compile) -> Objects:
        """What a call runs that runs what ``site`` compiles."""
        if site.in_place:
            return self._objects.of(expression_of(site))
        return frozenset({site.target if isinstance(site.target, cst.FunctionDef) else site.node})

    def _called_at_once(self, site: Compile) -> cst.Call | None:
        """``torch.compile(f)(x)``."""
        above = self._tree.parent(site.node)
        if site.in_place or isinstance(site.target, cst.FunctionDef) or not isinstance(above, cst.Call):
            return None
        return above if above.func is site.node else None

    def runs_one_in(self, node: cst.CSTNode) -> bool:
        """Whether a call inside ``node`` runs something that is compiled outside of it."""
        return any(not self._tree.within(site.node, node) and self.is_run_in(site, node) for site in self.sites)

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
        tree = self._tree
        return not (_COMPILING.isdisjoint(tree.names) and _COMPILING.isdisjoint(tree.attributes_by_name))


def expression_of(site: Compile) -> cst.CSTNode | None:
    """The expression that is compiled; None for a decorated function."""
    return None if isinstance(site.target, cst.FunctionDef) else site.target
