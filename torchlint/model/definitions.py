"""The file's own functions and classes: which call reaches which, who calls whom, what is returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model.knowledge import Kind
from torchlint.model.names import Names
from torchlint.model.tree import Tree

if TYPE_CHECKING:
    from torchlint.model.values import Values


@dataclass(frozen=True)
class Callers:
    """Where a function of the file is called from."""

    calls: tuple[cst.Call, ...]
    complete: bool  #: False: it is also passed on as a value, or may be called from elsewhere under the same name


class Definitions:
    """Functions and classes of one file."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._lineages: dict[cst.CSTNode, tuple[cst.ClassDef, ...]] = {}
        self._callers: dict[cst.CSTNode, Callers] = {}
        self._resolving: set[cst.CSTNode] = set()
        self._calls_by_name: dict[str, list[cst.Call]] | None = None
        self._exits: dict[cst.CSTNode, tuple[list[cst.BaseExpression | None], list[cst.BaseExpression]]] = {}

    # -- classes

    def lineage(self, definition: cst.CSTNode) -> tuple[cst.ClassDef, ...]:
        """The class and those of its bases that the file defines, nearest first."""
        known = self._lineages.get(definition)
        if known is not None:
            return known
        found: list[cst.ClassDef] = []
        waiting = [definition]
        while waiting:
            current = waiting.pop(0)
            if not isinstance(current, cst.ClassDef) or current in found:
                continue
            found.append(current)
            for base in current.bases:
                waiting.extend(self._definitions_named(base.value))
        self._lineages[definition] = tuple(found)
        return self._lineages[definition]

    def base_names(self, definition: cst.ClassDef) -> Iterator[str]:
        """Dotted names of the imported classes that ``definition`` derives from, in the file or beyond."""
        for current in self.lineage(definition):
            for base in current.bases:
                node = base.value.value if isinstance(base.value, cst.Subscript) else base.value
                yield from sorted(self._names.alternatives(node))

    def method(self, definition: cst.CSTNode, name: str) -> cst.FunctionDef | None:
        """The method called ``name`` of a class or of its bases in the file."""
        for current in self.lineage(definition):
            for binding in reversed(self._tree.scopes[current].bindings.get(name, [])):
                if isinstance(binding.node, cst.FunctionDef):
                    return binding.node
        return None

    # -- calls

    def called(self, call: cst.Call, values: Values) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that ``call`` may run."""
        return self.referenced(call.func, values)

    def referenced(self, func: cst.CSTNode, values: Values) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that the expression ``func`` stands for."""
        if isinstance(func, cst.Name):
            return self._definitions_named(func)
        if isinstance(func, cst.Attribute):
            owner = values.of(func.value)
            if owner.definition is not None and owner.kind is not Kind.FUNCTION:
                method = self.method(owner.definition, func.attr.value)
                return [method] if method is not None else []
        return []

    def _definitions_named(self, node: cst.CSTNode) -> list[cst.FunctionDef | cst.ClassDef]:
        if not isinstance(node, cst.Name):
            return []
        return [
            binding.node
            for binding in self._names.bindings(node)
            if isinstance(binding.node, (cst.FunctionDef, cst.ClassDef)) and binding.kind in ("function", "class")
        ]

    def callers(self, function: cst.FunctionDef, values: Values) -> Callers:
        """The calls of ``function`` within the file."""
        known = self._callers.get(function)
        if known is not None:
            return known
        if function in self._resolving:
            return Callers((), False)
        self._resolving.add(function)
        try:
            found = self._find_callers(function, values)
        finally:
            self._resolving.discard(function)
        self._callers[function] = found
        return found

    def _find_callers(self, function: cst.FunctionDef, values: Values) -> Callers:
        name = function.name.value
        owner = self._tree.class_of(function)
        calls: list[cst.Call] = []
        complete = True
        if owner is not None and name == "__init__":
            for call in self._by_name().get(owner.name.value, []):
                if owner in self._definitions_named(call.func):
                    calls.append(call)
        elif owner is not None:
            for call in self._by_name().get(name, []):
                if not isinstance(call.func, cst.Attribute):
                    continue
                if function in self.referenced(call.func, values):
                    calls.append(call)
                elif values.of(call.func.value).definition is None and not self._names.resolve(call.func):
                    complete = False
            if name in ("forward", "__call__"):
                complete = False
        else:
            for use in self._tree.names.get(name, []):
                if function not in self._definitions_named(use):
                    continue
                parent = self._tree.parent(use)
                if isinstance(parent, cst.Call) and parent.func is use:
                    calls.append(parent)
                else:
                    complete = False
        return Callers(tuple(calls), complete)

    def _by_name(self) -> dict[str, list[cst.Call]]:
        if self._calls_by_name is None:
            self._calls_by_name = {}
            for call in self._tree.calls:
                func = call.func
                name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", None)
                if isinstance(name, str):
                    self._calls_by_name.setdefault(name, []).append(call)
        return self._calls_by_name

    def arguments_for(self, function: cst.FunctionDef, param: cst.Param, values: Values) -> list[cst.BaseExpression]:
        """What the calls in the file pass for ``param``; unpacked arguments are left out."""
        found = [self.argument_of(call, function, param) for call in self.callers(function, values).calls]
        return [given for given in found if given is not None]

    def argument_of(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What ``call``, a call of ``function``, passes for ``param``; None if nothing, or if it is unpacked."""
        params = [*function.params.posonly_params, *function.params.params]
        position = next((i for i, item in enumerate(params) if item is param), None)
        if position is not None and self._tree.class_of(function) is not None:
            position -= 0 if _has_decorator(function, "staticmethod") else 1
        seen = 0
        for argument in call.args:
            if argument.star:
                return None
            if argument.keyword is not None:
                if argument.keyword.value == param.name.value:
                    return argument.value
            else:
                if seen == position:
                    return argument.value
                seen += 1
        return None

    # -- what a function gives

    def returns(self, function: cst.FunctionDef) -> list[cst.BaseExpression | None]:
        """The returned expressions; None for a bare ``return``."""
        return self._exits_of(function)[0]

    def yields(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """The yielded expressions."""
        return self._exits_of(function)[1]

    def _exits_of(self, function: cst.FunctionDef) -> tuple[list[cst.BaseExpression | None], list[cst.BaseExpression]]:
        known = self._exits.get(function)
        if known is not None:
            return known
        returns: list[cst.BaseExpression | None] = []
        yields: list[cst.BaseExpression] = []
        for node in self._tree.nodes_in(function.body):
            if isinstance(node, cst.Return):
                if self._tree.function_of(node) is function:
                    returns.append(node.value)
            elif isinstance(node, cst.Yield) and self._tree.function_of(node) is function:
                if isinstance(node.value, cst.BaseExpression):
                    yields.append(node.value)
        self._exits[function] = (returns, yields)
        return returns, yields


def _has_decorator(function: cst.FunctionDef, name: str) -> bool:
    return any(isinstance(item.decorator, cst.Name) and item.decorator.value == name for item in function.decorators)
