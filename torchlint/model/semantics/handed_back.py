"""Functions that return what they are given: ``x``, ``x.to(device)``, ``tqdm(x)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.knowledge import ITERATION_WRAPPERS
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.reaching import Reaching

#: How many names a parameter is followed through.
_DEPTH = 4


class HandedBack:
    """Answers for one forest."""

    def __init__(self, names: Names, definitions: Definitions, reaching: Reaching) -> None:
        self._names = names
        self._definitions = definitions
        self._reaching = reaching

    def of(self, call: cst.Call, function: cst.FunctionDef) -> tuple[cst.BaseExpression | None, list[cst.Call]]:
        """What ``call`` passes for the one parameter that ``function`` returns; None if it may return anything else.

        And the calls of its methods, ``x.to(device)``, that may have replaced it before.
        """
        found = [self._parameter(item, _DEPTH) for item in self._definitions.returns(function)]
        params = {param for param, _ in found}
        param = params.pop() if len(params) == 1 and not self._definitions.yields(function) else None
        given = self._definitions.argument_of(call, function, param) if param is not None else None
        return given, [move for _, made in found for move in made]

    def _parameter(self, node: cst.BaseExpression | None, depth: int) -> tuple[cst.Param | None, list[cst.Call]]:
        """The parameter that ``node`` is or, as a progress bar, iterates over, and calls of its methods."""
        if isinstance(node, cst.Call) and node.args and self._is_progress_bar(node):
            node = node.args[0].value
        bindings = self._reaching.of(node) if isinstance(node, cst.Name) and depth > 0 else []
        params: set[cst.Param | None] = set()
        made: list[cst.Call] = []
        for binding in bindings:
            value = binding.value
            if binding.kind == "param" and isinstance(binding.node, cst.Param):
                params.add(binding.node)
            elif binding.kind != "assign" or binding.path or not isinstance(value, cst.BaseExpression):
                params.add(None)
            elif isinstance(value, cst.Call) and self._is_of_name(value, binding.name):
                made.append(value)
            else:
                param, inner = self._parameter(value, depth - 1)
                params.add(param)
                made += inner
        return (params.pop() if len(params) == 1 else None), made

    def _is_progress_bar(self, node: cst.Call) -> bool:
        name = self._names.resolve(node.func)
        return name in ITERATION_WRAPPERS and not name.startswith(("builtins.", "itertools."))

    def _is_of_name(self, node: cst.Call, name: str) -> bool:
        """Whether ``node`` calls a method of what ``name`` is: ``x.to(device)``."""
        func = node.func
        return isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == name
