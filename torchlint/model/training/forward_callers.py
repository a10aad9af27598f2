"""Which calls of a `forward` show how it is run, and which methods of a network train it, or are a part of it."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import is_super_call
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.training.function_words import EVALUATING, USING, words_of

#: Methods of a network that take a batch and return a loss, whatever runs them.
_STEPS = frozenset({"train_step", "training_step", "forward_train"})


class ForwardCallers(ForestFact):
    """Answers for one forest."""

    def of(self, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        """The calls that run a `forward`, but for those by itself and those of methods that nobody calls.

        Of a class that is registered, those by classes that derive from it do not count either: its own objects are
        run elsewhere.
        """
        calls = self._forest.fact(Dispatch).callers(function)
        owner = self._forest.tree.class_of(function)
        is_registered = owner is not None and bool(owner.decorators)
        return tuple(
            call
            for call in calls
            if not (self._is_only_offered(call) or self._is_nested(call, function))
            and not (is_registered and is_super_call(call, function.name.value))
        )

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

    def is_step(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is a method of a network that trains it for one step, by its name."""
        return function.name.value in _STEPS and self._is_of_network(function)

    def needs_option(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether ``node`` only runs if ``function`` is given what is None by default: ``if config is not None:``."""
        for item in conditions(self._forest.tree, node, function):
            is_refused = item.is_else or item.kind is ConditionKind.EXIT
            asked = asked_for_none(item.test, cst.Is if is_refused else cst.IsNot) if item.test is not None else None
            param = self._forest.names.parameter(asked, rebound=True) if asked is not None else None
            if param is not None and is_none(param.default):
                return True
        return False

    def gives_loss(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is a method of a network that computes its loss, by its name; no call of it is seen."""
        is_named = "loss" in words_of(function.name.value) and self._is_of_network(function)
        return is_named and not self._forest.fact(Dispatch).callers(function)

    def _is_of_network(self, function: cst.FunctionDef) -> bool:
        owner = self._forest.tree.class_of(function)
        return owner is not None and self._forest.values.instance(owner).kind is Kind.MODULE

    def passes_on(self, function: cst.FunctionDef) -> bool:
        """Whether ``function``, which nobody is seen to call, is a part of a network, and not one for inference."""
        if words_of(function.name.value) & (EVALUATING | USING):
            return False
        owner = self._forest.tree.class_of(function)
        if owner is None:
            return self._forest.function_of(function) is not None  # given to `checkpoint`
        return self._forest.values.instance(owner).kind in (Kind.MODULE, Kind.LOSS)
