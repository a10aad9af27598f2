"""Networks whose forward pass computes gradients, such as forces from an energy: under ``no_grad`` it raises."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.networks import Networks


class InnerGradients(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def may_be_computed_by(self, call: cst.Call) -> bool:
        """Whether what ``call`` runs computes gradients, or may: a network of unknown class, if one of all does."""
        run = self._forest.fact(Dispatch).run(call)
        if run:
            return any(map(self._forest.fact(Gradients).trains, run))
        return self._is_of_unknown_class(call) and self._are_computed_by_networks

    def _is_of_unknown_class(self, call: cst.Call) -> bool:
        value = self._forest.value(self._forest.fact(Networks).network_of(call))
        return value.definition is None and not value.name and not value.origins

    @cached_property
    def _are_computed_by_networks(self) -> bool:
        """Whether the ``forward`` of a network of the program computes gradients; a loss is not a network."""
        gradients, definitions = self._forest.fact(Gradients), self._forest.definitions
        forwards = (
            definitions.method(owner, "forward")
            for owner in self._forest.tree.classes
            if gradients.backwards and not knowledge.NO_NETWORK.search(owner.name.value)
        )
        return any(
            forward is not None
            and gradients.trains(forward)
            and self._forest.values.object_of(forward).kind is Kind.MODULE
            for forward in forwards
        )
