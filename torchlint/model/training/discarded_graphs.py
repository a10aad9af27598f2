"""Forwards in code that trains, or in a script, whose outputs are only used without their autograd graph."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.exclusions import Exclusions
from torchlint.model.training.frozen import Frozen
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_site import InferenceSite
from torchlint.model.training.networks import Networks
from torchlint.model.training.output_uses import OutputUses

#: Why nothing needs a graph.
_DETACHED = "the output is only read after it is detached"
#: Words of a script that wants a gradient.
_DIFFERENTIATING = frozenset({"backward", "grad", "autograd", "requires_grad", "requires_grad_", "optim"})


class DiscardedGraphs:
    """Answers for one forest."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._uses = module.fact(OutputUses)

    @cached_property
    def in_networks(self) -> list[InferenceSite]:
        """Networks that other networks run for outputs that they only detach: the teacher in a distiller.

        Not the layers of a list, which are a small part of one.
        """
        module, tree = self._module, self._module.tree
        found: list[InferenceSite] = []
        for call in tree.calls_in(module.root):
            home = tree.function_of(call)
            if not isinstance(home, cst.FunctionDef) or not module.fact(Exclusions).is_part_of_network(home):
                continue
            if not module.fact(Networks).runs_network(call) or not self._uses.only_leaves_graph(call, home):
                continue
            statement, model = tree.statement_of(call), module.fact(Networks).network_of(call)
            is_recorded = dotted_name(model) and module.fact(GradModes).of(call) is GradMode.RECORDING
            if is_recorded and self._is_all_of(statement, call) and not module.fact(Frozen).has(model):
                found.append(InferenceSite(call, model, statement, (_DETACHED, None)))
        return found

    def _is_all_of(self, statement: cst.CSTNode, call: cst.Call) -> bool:
        """Whether a statement only assigns the output of ``call``: ``wanted = self.teacher(x)[0].detach()``."""
        value: cst.BaseExpression | None = statement.value if isinstance(statement, cst.Assign) else None
        while value is not call and isinstance(value, (cst.Attribute, cst.Subscript, cst.Call)):
            value = value.func if isinstance(value, cst.Call) else value.value
        return value is call

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
            return _DETACHED
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
