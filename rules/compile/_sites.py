"""The places of a program that compile something with ``torch.compile``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.literals import is_true

OPTIONS = frozenset({"fullgraph", "dynamic", "backend", "mode", "options", "disable"})
#: Backends that do not optimize, for debugging and for tests: ``eager``, ``aot_eager_decomp_partition``.
EAGER_BACKENDS = re.compile(r"(pre_dispatch_|aot_)?eager(_\w+)?")


@dataclass(frozen=True, eq=False)
class Compile:
    """One place that compiles something: a call, a decorator, or ``x.compile()``."""

    node: cst.Call | cst.Decorator
    call: cst.Call | None  #: the call with the options; None for a decorator without parentheses
    target: cst.BaseExpression | cst.FunctionDef  #: the compiled object
    in_place: bool = False  #: ``x.compile()``

    @property
    def options(self) -> list[cst.Arg]:
        """The arguments other than the compiled object."""
        return [] if self.call is None else [item for item in self.call.args if item.value is not self.target]

    def option(self, name: str) -> cst.Arg | None:
        """The argument passed by that keyword."""
        return next((item for item in self.options if item.keyword is not None and item.keyword.value == name), None)

    @property
    def debugging(self) -> cst.Arg | None:
        """The argument that prevents optimization: ``backend="eager"``, ``disable=True``."""
        disable, backend = self.option("disable"), self.option("backend")
        if disable is not None and is_true(disable.value):
            return disable
        if backend is not None and isinstance(backend.value, cst.SimpleString):
            text = backend.value.evaluated_value
            return backend if isinstance(text, str) and EAGER_BACKENDS.fullmatch(text) else None
        return None


class CompileSites(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values

    @cached_property
    def for_speed(self) -> list[Compile]:
        """Every place of the file that compiles something for speed, in order."""
        return [site for site in self.all if _is_for_speed(site)]

    @cached_property
    def all(self) -> list[Compile]:
        """Every place of the file that compiles something, even if only for debugging, in order."""
        found = [*self._calls(), *self._methods(), *self._decorators()]
        return sorted(found, key=lambda site: self._tree.index(site.node))

    def _calls(self) -> Iterator[Compile]:
        for call in self._names.calls_of("torch.compile"):
            if any(item.star == "*" for item in call.args):
                continue
            above = self._tree.parent(call)
            given = [item for item in call.args if item.keyword is None or item.keyword.value == "model"]
            if given and not given[0].star:
                yield Compile(call, call, given[0].value)
            elif isinstance(above, cst.Call) and above.func is call and above.args and not above.args[0].star:
                yield Compile(above, call, above.args[0].value)

    def _methods(self) -> Iterator[Compile]:
        for call in self._tree.calls_named("compile"):
            func = call.func
            if not isinstance(func, cst.Attribute) or self._names.resolve(func):
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


def _is_for_speed(site: Compile) -> bool:
    disable = site.option("disable")
    if disable is not None and not (isinstance(disable.value, cst.Name) and disable.value.value == "False"):
        return False
    return site.debugging is None
