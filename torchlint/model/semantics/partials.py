"""Functions that are prepared with some of their arguments: ``functools.partial(train, loader=loader)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.arguments import PARTIAL
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.passed_functions import Calls


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

    def _find(self, values: Evaluator) -> dict[cst.CSTNode, list[cst.Call]]:
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in self._names.calls_of(PARTIAL):
            prepared = call.args[0].value if call.args and call.args[0].star == "" else None
            for item in self._calls.reachable(prepared, values) if prepared is not None else ():
                function = self._calls.method(item, "__init__") if isinstance(item, cst.ClassDef) else item
                if function is not None:
                    found.setdefault(function, []).append(call)
        return found
