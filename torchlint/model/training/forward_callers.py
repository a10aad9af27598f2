"""Which calls of a `forward` show how it is run, and which functions of a network are a part of it."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.function_words import EVALUATING, USING, words_of


class ForwardCallers(ForestFact):
    """Answers for one forest."""

    def of(self, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        """The calls that run a `forward`, but for those by itself and those of methods that nobody calls."""
        calls = self._forest.fact(Dispatch).callers(function)
        return tuple(call for call in calls if not (self._is_only_offered(call) or self._is_nested(call, function)))

    def _is_only_offered(self, call: cst.Call) -> bool:
        """Whether a network runs itself, ``self(x)``, in a method for inference that nobody is seen to call."""
        function = self._forest.function_of(call)
        if function is None or not self._forest.names.is_self(call.func) or self.passes_on(function):
            return False
        return not self._forest.fact(Dispatch).callers(function)

    def _is_nested(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether a `forward` runs that of another object of its kind, maybe in a method that only it calls."""
        around = self._forest.function_of(call)
        callers = self._forest.fact(Dispatch).callers(around) if around is not None else ()
        functions = {self._forest.function_of(caller) for caller in callers}
        return around is function or functions == {function}

    def passes_on(self, function: cst.FunctionDef) -> bool:
        """Whether ``function``, which nobody is seen to call, is a part of a network, and not one for inference."""
        if words_of(function.name.value) & (EVALUATING | USING):
            return False
        owner = self._forest.tree.class_of(function)
        if owner is None:
            return self._forest.function_of(function) is not None  # given to `checkpoint`
        return self._forest.values.instance(owner).kind in (Kind.MODULE, Kind.LOSS)
