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
            return any(self._forest.fact(Gradients).trains_by(call, function) for function in run)
        if not self._is_of_unknown_class(call):
            return False
        parts = self._parts_called_by(call)
        return any(map(self._computes, parts)) if parts else self._are_computed_by_networks

    def _is_of_unknown_class(self, call: cst.Call) -> bool:
        value = self._forest.value(self._forest.fact(Networks).network_of(call))
        return value.definition is None and not value.name and not value.origins

    def _parts_called_by(self, call: cst.Call) -> list[cst.ClassDef]:
        """The classes of what objects keep under the name that is called: ``model.encoder(points)``."""
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        tree = self._forest.tree
        bound = (item.value for owner in tree.classes for item in tree.scopes[owner].attributes.get(name, ()))
        found = (self._forest.value(value).definition for value in bound)
        return [item for item in found if isinstance(item, cst.ClassDef)]

    @cached_property
    def _are_computed_by_networks(self) -> bool:
        """Whether the ``forward`` of a network of the program computes gradients; a loss is not a network."""
        return bool(self._forest.fact(Gradients).backwards) and any(
            self._computes(owner)
            for owner in self._forest.tree.classes
            if not knowledge.NO_NETWORK.search(owner.name.value)
        )

    def _computes(self, owner: cst.ClassDef) -> bool:
        forward = self._forest.definitions.method(owner, "forward")
        return (
            forward is not None
            and self._forest.fact(Gradients).trains(forward)
            and self._forest.values.object_of(forward).kind is Kind.MODULE
        )
