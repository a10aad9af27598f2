"""Functions that run compiled, and which of their code is always reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.nodes import HANDLERS

from ._conditions import goes_on, is_usual
from ._execution import Execution
from ._sites import Compile, CompileSites

#: The maximum number of calls that compiled code is followed into: a model, its blocks, their layers.
_DEPTH = 3
#: What code is in that may not be reached.
_CONDITIONAL = frozenset({*HANDLERS, cst.MatchCase, cst.Raise, cst.Assert})


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that runs compiled."""

    function: cst.FunctionDef
    site: Compile  #: where it is compiled, or where its caller is
    call: cst.Call | None = None  #: the call by which the compiled function runs it; None if it is compiled itself


class TracedCode:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def functions(self) -> dict[cst.FunctionDef, Traced]:
        """The functions of the file that may run compiled: those that are compiled, and those that they call."""
        module = self._module
        found: dict[cst.FunctionDef, Traced] = {}
        for site in module.fact(CompileSites).all:
            if site.debugging is not None and site.debugging is site.option("disable"):
                continue
            for item in module.fact(Execution).contents_of(site):
                if isinstance(item, cst.FunctionDef) and (
                    item is site.target or not module.fact(ObjectFlow).is_sealed(item)
                ):
                    found.setdefault(item, Traced(item, site))
        latest = list(found.values())
        for _ in range(_DEPTH):
            latest = [item for outer in latest for item in self._called_by(outer) if item.function not in found]
            found.update({item.function: item for item in reversed(latest)})
        return found

    def _called_by(self, outer: Traced) -> Iterator[Traced]:
        for call in self.calls(outer):
            for item in self._module.fact(Execution).run_by(call):
                if isinstance(item, cst.FunctionDef) and not self._module.fact(ObjectFlow).is_sealed(item):
                    yield Traced(item, outer.site, call)

    def calls(self, traced: Traced) -> Iterator[cst.Call]:
        """The calls that a traced function always makes."""
        for call in self._module.tree.calls_in(traced.function.body):
            if self.is_reached(call, traced.function):
                yield call

    def is_reached(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether running ``function`` compiled reaches ``node``, as far as is known."""
        module = self._module
        if module.tree.function_of(node) is not function or module.fact(Execution).checks_whether_compiling(node):
            return False
        for above, child in climb(module.tree, node):
            if above is function:
                return True
            if type(above) in _CONDITIONAL:
                return False
            if type(above) is cst.BooleanOperation and child is above.right and not goes_on(module, above):
                return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                if child is not above.body or not is_usual(module, above.test):
                    return False
        return False
