"""Autocast that a loop within a forward pass enters at each iteration, for the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocasts
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import base_of, last_name, last_part
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loop, Loops, is_batch, is_step
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

#: Methods that run networks, and their beginnings in names of modules that multiply no matrices.
_LIGHT = (*knowledge.PARAMETERLESS, "LayerNorm", "BatchNorm", "GroupNorm", "Embedding", "RMSNorm")


@dataclass(frozen=True, eq=False)
class InnerAutocast:
    """A `with autocast(...)` that a loop repeats."""

    region: cst.With
    autocast: cst.Call
    loop: Loop
    network: cst.Call  #: a call of a network that is the same in each iteration


class InnerAutocasts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def all(self) -> Iterator[InnerAutocast]:
        """Such regions of the file, in order."""
        for region in self._tree.withs:
            found = self._found(region) if self._module.is_own(region) else None
            if found is not None:
                yield found

    def _found(self, region: cst.With) -> InnerAutocast | None:
        module = self._module
        entered = self._entered(region)
        loops = module.fact(Loops).around(region)
        if entered is None or not loops or module.fact(GradModes).of(region).is_off:
            return None
        loop = loops[0]
        if not self._is_unconditional(region, loop) or not self._is_part_of_step(loop):
            return None
        if module.fact(Autocasts).around(loop.node) is not None or module.fact(Autocasts).is_on(loop.node):
            return None
        network = next((call for call in self._tree.calls_in(region.body) if self._is_reused(call, loop)), None)
        return None if network is None else InnerAutocast(region, entered, loop, network)

    def _entered(self, region: cst.With) -> cst.Call | None:
        """The autocast of a `with` that enters nothing else, unless it is off."""
        node = region.items[0].item
        if len(region.items) != 1 or region.items[0].asname is not None or not isinstance(node, cst.Call):
            return None
        name = next(iter(self._names(node.func) & knowledge.AUTOCASTS), None)
        if name is None:
            return None
        call = self._module.call(node, name)
        if any(call.argument(name).literal() == "False" for name in ("enabled", "cache_enabled")):
            return None
        return None if self._module.name_of(call.argument("dtype").value) == "torch.float32" else node

    def _names(self, func: cst.BaseExpression) -> frozenset[str | None]:
        """What is called; also `autocast = torch.cuda.amp.autocast` in a `try`, because old versions lack it."""
        bound = self._module.names.bindings(func) if isinstance(func, cst.Name) else ()
        assigned = frozenset(self._module.name_of(item.value) for item in bound if item.kind is BindingKind.ASSIGN)
        return self._module.names.alternatives(func) | assigned

    def _is_unconditional(self, region: cst.With, loop: Loop) -> bool:
        return all(item.kind is ConditionKind.EXIT for item in conditions(self._tree, region, loop.node))

    def _is_part_of_step(self, loop: Loop) -> bool:
        """Whether ``loop`` runs in each step or forward pass, without a backward pass of its own."""
        module = self._module
        if is_batch(loop.over) or loop.loaders or "loader" in module.code(_header(loop.node)).lower():
            return False
        calls = self._tree.calls_in(loop.node)
        if any(
            module.fact(Gradients).is_backward(call) or is_step(call) or "backward" in last_name(call.func)
            for call in calls
        ):
            return False
        if module.fact(Gradients).trains(loop.node.body) or module.fact(Purposes).runs_once(loop.node):
            return False
        return module.fact(StepPlaces).repeating(loop.node) is not None

    def _is_reused(self, call: cst.Call, loop: Loop) -> bool:
        """Whether ``call`` runs a network with weights that is the same in each iteration of ``loop``."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            func = func.value
        if not isinstance(func, (cst.Name, cst.Attribute)) or self._module.name_of(func) is not None:
            return False
        value = self._module.value(func)
        if value.kind is not Kind.MODULE or last_part(value.name).startswith(_LIGHT):
            return False
        root = base_of(func, {cst.Attribute})
        if not isinstance(root, cst.Name):
            return False
        within = self._tree.within
        stored = any(
            isinstance(target, cst.Attribute) and target.attr.value == last_name(func) and within(statement, loop.node)
            for target, _, statement in self._tree.stores
        )
        bound = any(within(item.node, loop.node) for item in self._module.names.bindings(root))
        return not (stored or bound)


def _header(loop: cst.For | cst.While) -> cst.BaseExpression:
    """What a loop iterates over, or its condition."""
    return loop.iter if isinstance(loop, cst.For) else loop.test
