"""Batches that a loader of Fabric has copied to the device, before the program gets them."""

from __future__ import annotations

from functools import cached_property, partial

import libcst as cst

from torchlint.model.data.lightning import passed_loaders
from torchlint.model.forest import ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name
from torchlint.model.training.data_flow import DataFlow, Search

from ._exits import leaves_device

_FABRIC = "lightning.fabric.Fabric"
_SETS_UP = "setup_dataloaders"
#: The maximum number of expressions between a batch and the call that sets up its loader.
_DEPTH = 12


class FabricBatches(ForestFact):
    """Answers for one forest."""

    def has(self, name: cst.Name) -> bool:
        """Whether ``name`` is a batch, or a part of one, of loaders that copy each batch to the device."""
        if not self._forest.tree.calls_named(_SETS_UP):
            return False
        value = self._forest.value(name)
        is_batch = value.kind is Kind.BATCH or (value.role is Role.BATCH and value.device is None)
        if not is_batch or value.origins:
            return is_batch and value.origins <= self._set_up
        return self._search.finds(name)  # the loader is made where the program does not show it

    def gives(self, call: cst.CSTNode) -> bool:
        """Whether ``call`` is ``fabric.setup_dataloaders(loader)``, whose loaders copy each batch to the device."""
        if not isinstance(call, cst.Call) or called_name(call) != _SETS_UP or not isinstance(call.func, cst.Attribute):
            return False
        fabric = self._forest.value(call.func.value)
        made = fabric.origins or {call.node for call in self._forest.calls(_FABRIC)}
        on_host = any(
            isinstance(item, cst.Call) and self._forest.value(keyword(item, "accelerator")).constant == "cpu"
            for item in made
        )
        return fabric.name == _FABRIC and not on_host and keyword(call, "move_to_device") is None

    @cached_property
    def _search(self) -> Search:
        """A search for the loaders of Fabric that give a value, through iterators of the program."""
        ends = partial(leaves_device, self._forest)
        return self._forest.fact(DataFlow).search(self.gives, ends, outward=True, depth=_DEPTH)

    @cached_property
    def _set_up(self) -> frozenset[cst.CSTNode]:
        """The loaders that an object of Fabric sets up."""
        calls = filter(self.gives, self._forest.tree.calls_named(_SETS_UP))
        return frozenset(loader for call in calls for loader in passed_loaders(self._forest, call))
