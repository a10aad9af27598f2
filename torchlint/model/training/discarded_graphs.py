"""Forwards in code that trains, or in a script, whose outputs are only used without their autograd graph."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.output_uses import OutputUses

#: Words of a script that wants a gradient.
_DIFFERENTIATING = frozenset({"backward", "grad", "autograd", "requires_grad", "requires_grad_", "optim"})


class DiscardedGraphs:
    """Answers for one forest."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._uses = module.fact(OutputUses)

    def trains_around(self, call: cst.Call) -> bool:
        """Whether the function around ``call``, or the script, trains."""
        return self._module.fact(Gradients).trains(self._home_of(call))

    def reason(self, call: cst.Call) -> str:
        """Why nothing needs the graph of the output of ``call``; empty if something may."""
        if self.trains_around(call):
            return self._reason_in_training(call)
        return self._reason_in_script(call)

    def _reason_in_training(self, call: cst.Call) -> str:
        """The reason in code that trains. Gradients are recorded there, so that reading an index shows no grad mode."""
        home = self._home_of(call)
        if self._uses.only_leaves_graph(call, home):
            return "the output is only read after it is detached"
        if not self._module.fact(Gradients).carries_gradient(call) and self._uses.is_only_read(call, home):
            return "only numbers or indices that are read from the output are used"
        return ""

    def _reason_in_script(self, call: cst.Call) -> str:
        """The reason in a script that loads weights and trains nothing."""
        module, home = self._module, self._home_of(call)
        words = module.words_of(module.root)
        if home is not module.root or not {"load_state_dict", "load"} & words or words & _DIFFERENTIATING:
            return ""
        only = self._uses.leaves_graph(call, home) and not self._uses.is_given_away(call, home)
        return "the script loads weights and trains nothing" if only else ""

    def _home_of(self, call: cst.Call) -> cst.FunctionDef | cst.Module:
        function = self._module.function_of(call)
        return function if isinstance(function, cst.FunctionDef) else self._module.root
