"""Functions that are prepared with some of their arguments: ``functools.partial(train, loader=loader)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.arguments import PARTIAL
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.passed_functions import Calls
from torchlint.model.syntax.binding_kinds import BindingKind

#: A name with more bindings than this is not followed.
_MANY = 24


class Partials:
    """Answers for one forest."""

    def __init__(self, names: Names, calls: Calls) -> None:
        self._names = names
        self._calls = calls
        self._found: dict[cst.CSTNode, list[cst.Call]] | None = None

    def of(self, function: cst.FunctionDef, values: Evaluator) -> list[cst.Call]:
        """The calls of ``partial`` that prepare ``function``, or the class whose constructor it is."""
        if self._found is None:
            found, is_final = values.attempt(lambda: self._find(values))
            if not is_final:
                return found.get(function, [])
            self._found = found
        return self._found.get(function, [])

    def classes(self, func: cst.Name, values: Evaluator) -> list[cst.ClassDef]:
        """The classes whose objects a name makes, which is only bound to them, prepared by ``partial``.

        So for ``build = partial(Small, depth=2)`` in one branch, and ``build = partial(Large, depth=9)`` in another.
        """
        if not self._names.calls_of(PARTIAL):
            return []
        bindings = self._names.bindings(func)
        given = [item.value if item.kind is BindingKind.ASSIGN and not item.path else None for item in bindings]
        if not 0 < len(given) <= _MANY or not all(map(self._is_partial, given)):
            return []
        prepared = [call.args[0].value for call in given if isinstance(call, cst.Call)]
        found = [self._calls.reachable(self._original(item), values) for item in prepared]
        classes = [item for items in found for item in items if isinstance(item, cst.ClassDef)]
        return [*dict.fromkeys(classes)] if len(classes) == len(given) else []

    def _original(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``Net`` of ``nets.OldNet``, where that file says ``OldNet = Net``."""
        bindings = self._names.members(node) or (self._names.bindings(node) if isinstance(node, cst.Name) else [])
        only = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN else None
        alias = only.value if only is not None and not only.path else None
        return alias if isinstance(alias, (cst.Name, cst.Attribute)) else node

    def _is_partial(self, node: cst.BaseExpression | None) -> bool:
        if not isinstance(node, cst.Call) or not node.args or node.args[0].star or node.args[0].keyword is not None:
            return False
        return self._names.resolve(node.func) == PARTIAL

    def _find(self, values: Evaluator) -> dict[cst.CSTNode, list[cst.Call]]:
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in self._names.calls_of(PARTIAL):
            prepared = call.args[0].value if call.args and call.args[0].star == "" else None
            for item in self._calls.reachable(prepared, values) if prepared is not None else ():
                function = self._calls.method(item, "__init__") if isinstance(item, cst.ClassDef) else item
                if function is not None:
                    found.setdefault(function, []).append(call)
        return found
