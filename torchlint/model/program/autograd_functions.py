"""Functions of the program with their own backward pass: classes that derive from `torch.autograd.Function`."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import ForestFact

_BASE = "torch.autograd.Function"


class AutogradFunctions(ForestFact):
    """Answers for one forest."""

    def forward(self, call: cst.Call) -> cst.FunctionDef | None:
        """The ``forward`` that ``AllReduce.apply(x)`` runs, also under a name; None of any other call."""
        func = self._forest.values.reaching.assigned(call.func) if isinstance(call.func, cst.Name) else call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "apply" or self._forest.name_of(func) is not None:
            return None
        owner = self._forest.value(func.value).definition
        if not isinstance(owner, cst.ClassDef):
            return None
        definitions = self._forest.definitions
        return definitions.method(owner, "forward") if _BASE in definitions.base_names(owner) else None
