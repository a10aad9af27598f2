"""Compiled code that runs only inside other compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.version_checks import VersionChecks
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.main_guard import is_main_guard

from ._coverage import Coverage, Function
from ._execution import Execution
from ._sites import Compile


class Redundant(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._version_checks = forest.fact(VersionChecks)
        self._execution = forest.fact(Execution)
        self._coverage = forest.fact(Coverage)

    def pairs(self, sites: Sequence[Compile]) -> Iterator[tuple[Compile, Compile]]:
        """Those of ``sites`` that run only inside another compile, each with the outer compile."""
        if len(self._execution.sites) < 2:
            return
        for site in sites:
            outer = self._outer(site)
            if outer is not None:
                yield site, outer

    def _outer(self, inner: Compile) -> Compile | None:
        found: list[Compile] = []
        upper = self._upper_decorator(inner)
        if upper is not None:
            return upper
        if isinstance(inner.target, cst.FunctionDef) and not self._coverage.is_known(inner.target):
            return None
        for call in self._execution.runs(inner):
            outer = self._coverage.of(call, inner)
            if outer is None:
                return None
            found.append(outer)
        found = list(dict.fromkeys(found)) or [
            site for site in self._coverage.may_contain(inner) if self._coverage.is_compiled_in(inner, site)
        ]
        if any(site is inner or self._coverage.is_compiled_in(site, inner) for site in found):
            return None  # each within the other: they cannot be ordered
        if not found or not all(self._always_with(inner, site) for site in found):
            return None
        return min(found, key=lambda site: self._tree.index(site.node))

    def _upper_decorator(self, inner: Compile) -> Compile | None:
        if not isinstance(inner.target, cst.FunctionDef):
            return None
        others = [site for site in self._execution.decorating[inner.target] if site is not inner]
        return next((site for site in others if self._tree.index(site.node) < self._tree.index(inner.node)), None)

    def _always_with(self, inner: Compile, outer: Compile) -> bool:
        """Whether ``outer`` is active whenever ``inner`` is, as far as conditions in the file show."""
        if self._version_checks.alternative(inner.node, outer.node) or not self._may_both_run(inner.node, outer.node):
            return False
        known = self._conditions(inner.node)
        around = self._calls_beside(inner.node, outer.node)
        return self._conditions(outer.node) <= known and (
            not around or any(self._conditions(call) <= known for call in around)
        )

    def _calls_beside(self, inner: cst.CSTNode, outer: cst.CSTNode) -> list[cst.Call]:
        """The calls in the function around ``inner`` by which it reaches ``outer``, which is in another function."""
        home = self._tree.function_of(inner)
        if home is None or self._tree.function_of(outer) is home:
            return []
        reached = self._callers_of(outer) - {home}
        return [
            call
            for function in reached
            if isinstance(function, cst.FunctionDef)
            for call in self._definitions.callers(function, self._values).calls
            if self._tree.function_of(call) is home
        ]

    def _may_both_run(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether some run of the file may reach both places: one calls the other, or something calls both."""
        paths = [self._callers_of(node) for node in (one, other)]
        return None in paths[0] or None in paths[1] or bool(paths[0] & paths[1])

    def _callers_of(self, node: cst.CSTNode) -> set[Function | None]:
        """The functions around ``node`` and those that call them, at any depth; None for module level."""
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
        outer = nearest(self._tree, node, cst.FunctionDef, cst.Lambda)
        return frozenset(
            (self._forest.code(item.test), not item.is_else)
            for item in branches(self._tree, node, outer)
            if item.test is not None and not self._platform(item.test)
        )

    def _platform(self, test: cst.BaseExpression) -> bool:
        """``if __name__ == "__main__"``, ``if hasattr(torch, "compile")``, ``if torch.cuda.is_available()``."""
        if self._version_checks.probes(test):
            return True
        return any(
            (isinstance(node, cst.Comparison) and is_main_guard(node))
            or (isinstance(node, cst.Call) and self._names.resolve(node.func) == "torch.cuda.is_available")
            for node in self._tree.nodes_in(test)
        )
