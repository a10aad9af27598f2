"""New tensors that `copy_` copies from the host to the buffers of a network, at each call of a method."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.tensors.host_factories import NewTensor
from torchlint.model.tensors.placement import Move
from torchlint.model.tensors.returned_tensors import ReturnedTensors
from torchlint.model.training.purpose import Purposes

from ._tensor_targets import TensorTargets


class Copies(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def all(self) -> list[tuple[Move, NewTensor]]:
        """The calls ``self.noise.copy_(torch.randn(size))`` that do not only set up the network, in order."""
        found: list[tuple[Move, NewTensor]] = []
        for call in self._forest.methods("copy_"):
            source = call.argument("src").value if len(call.node.args) == 1 else None
            created = self._forest.fact(ReturnedTensors).computed(source) if source is not None else None
            if source is None or created is None:
                continue
            if self._is_of_network(call.receiver) and self._is_repeated(call.node) and self._is_only_copied(source):
                found.append((Move(call.node, source, None, Device.CUDA), created))
        return found

    def _is_of_network(self, target: cst.BaseExpression) -> bool:
        """Whether ``target`` is a buffer or parameter of the network whose method copies to it."""
        return is_attribute_of_self(target) and self._forest.fact(TensorTargets).is_on_cuda(target)

    def _is_repeated(self, call: cst.Call) -> bool:
        """Whether code other than constructors is seen to call the method."""
        function = self._forest.function_of(call)
        if function is None:
            return False
        purposes = self._forest.fact(Purposes)
        return any(
            (caller := self._forest.function_of(item)) is None or not purposes.is_constructor(caller)
            for item in self._forest.callers(function).calls
        )

    def _is_only_copied(self, source: cst.BaseExpression) -> bool:
        """Whether the tensors with names in ``source`` are only used for such copies."""
        tree, names = self._forest.tree, self._forest.names
        copied = [item for call in self._forest.methods("copy_") for item in call.node.args]
        return all(
            any(tree.within(use, item) for item in copied) or tree.within(use, binding.node)
            for node in tree.inside(source, cst.Name)
            for binding in self._forest.values.reaching.of(node)
            if binding.kind is BindingKind.ASSIGN
            for use in tree.names.get(node.value, ())
            if names.home_of(use) is names.home_of(node)
        )
