"""What methods of networks and losses are given to compute on, which is on the device in a training step."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role, Value
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.tensors.numbers import Numbers
from torchlint.model.training.purpose import Purposes

from ._exits import leaves_device
from ._fabric_batches import FabricBatches

#: Parameters that are often on the host, such as those that `pack_padded_sequence` needs there.
_LENGTHS = re.compile(r"len|size|num|step|epoch|idx|index", re.IGNORECASE)


class NetworkInputs(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._given: dict[cst.CSTNode, bool] = {}

    def has(self, name: cst.Name) -> bool:
        """Whether ``name`` is what a network is given to compute on; lengths may be on the host."""
        if _LENGTHS.search(name.value):
            return False
        reached = self._forest.values.reaching.of(name)
        return bool(reached) and all(isinstance(item.node, cst.Param) and self._is_input(item.node) for item in reached)

    def _is_input(self, param: cst.Param) -> bool:
        if param not in self._given:
            self._given[param] = self._is_given(param)
        return self._given[param]

    def _is_given(self, param: cst.Param) -> bool:
        """Whether ``param`` is what a method of a network or a loss computes on, unless a caller passes host data."""
        function = owner_of(self._tree, param)
        if function is None or param is first_parameter(function) or param.star == "**":
            return False
        if param.annotation is not None and "Tensor" not in self._forest.code(param.annotation.annotation):
            return False
        if param.default is not None and self._forest.code(param.default) != "None":
            return False
        owner = self._tree.class_of(function)
        if owner is None or self._forest.fact(Purposes).is_constructor(function):
            return False
        if self._forest.values.instance(owner).kind not in (Kind.MODULE, Kind.LOSS):
            return False
        given = self._forest.fact(Dispatch).arguments_for(function, param)
        if function.name.value == "forward":  # a wrapper such as DistributedDataParallel moves a batch
            given = [item for item in given if Role.BATCH is not self._forest.value(item).role]
        return not any(map(self._is_of_host, given))

    def _is_of_host(self, given: cst.BaseExpression) -> bool:
        """Whether a caller passes a copy on the CPU, a number or setting, or a batch before it is moved."""
        bound = self._forest.values.reaching.only(given) if isinstance(given, cst.Name) else None
        if isinstance(given, cst.Name) and bound is not None and bound.kind is BindingKind.FOR:
            if self._forest.value(given).role is Role.BATCH and not self._forest.fact(FabricBatches).has(given):
                return True
        return self.leaves_device(given) or self._is_setting(given)

    def _is_setting(self, given: cst.BaseExpression) -> bool:
        """``2``, ``args.stride``, ``head_cfg.STRIDE``."""
        if isinstance(given, cst.Attribute):
            return given.attr.value.isupper() or self._forest.fact(Numbers).is_setting(given)
        return not isinstance(given, cst.Name) and self._forest.fact(Numbers).is_number(given)

    def leaves_device(self, part: cst.CSTNode) -> bool:
        """Whether the value of ``part`` is on the CPU, or is part of a batch that no network has processed."""
        if type(part) is cst.Attribute and part.attr.value == "device":
            return False  # what is created on the device of a tensor is where that is
        if leaves_device(self._forest, part):
            return True
        if type(part) is cst.Call:
            return self._is_on_host(self._forest.value(part))
        if type(part) is cst.Name:
            value = self._forest.value(part)
            if value.kind is Kind.BATCH:
                return not self._forest.fact(FabricBatches).has(part)  # else it came from the CPU
            return self._is_on_host(value) or (value.sure and value.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY))
        return False

    def _is_on_host(self, value: Value) -> bool:
        """Whether a value is a tensor on the CPU for certain: ``torch.zeros(10)`` that is filled there."""
        if not value.sure or value.kind is not Kind.TENSOR or value.device is not Device.CPU:
            return False
        return bool(value.origins) and all(
            isinstance(made, cst.Call) and keyword(made, "device") is None for made in value.origins
        )
