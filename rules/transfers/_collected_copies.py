"""Results that a loop copies to the CPU at every step, only to join them after the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.training.loops import Loops
from torchlint.model.training.step_places import StepPlaces

from ._host_reads import HostRead, HostReads, WaitingStep

_JOINING = frozenset(f"torch.{name}" for name in ("cat", "concat", "concatenate", "stack", "vstack")) | frozenset(
    f"numpy.{name}" for name in ("concatenate", "stack", "vstack", "array")
)
#: Methods behind the copy.
_BEHIND = ("numpy", "detach")


@dataclass(frozen=True, eq=False)
class CollectedCopy:
    """A copy that is appended to a list."""

    call: cst.Call  #: the copy
    joined: cst.Call  #: what joins the list after the loop
    loop: cst.CSTNode


class CollectedCopies:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._reads = module.fact(HostReads)

    def all(self) -> Iterator[CollectedCopy]:
        """The copies of the file, in order, of loops that do not wait for the GPU otherwise."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        found = [copy for call in self._module.methods("append") if (copy := self._appended(call)) is not None]
        for copy in found:
            reads = [HostRead(item.call, item.call, copy.loop, False) for item in found if item.loop is copy.loop]
            if not self._reads.waits_otherwise(WaitingStep(copy.loop, tuple(reads))):
                yield copy

    def _appended(self, call: cst.Call) -> CollectedCopy | None:
        if not self._module.is_own(call) or len(call.args) != 1 or not isinstance(call.func, cst.Attribute):
            return None
        copy = _copied(call.args[0].value)
        place = self._module.fact(StepPlaces).of(call) if copy is not None else None
        if copy is None or place is None or not place.is_loop or place.calls:
            return None
        joined = self._joined(call.func.value, place.step)
        if joined is None or not isinstance(copy.func, cst.Attribute):
            return None
        tensor = copy.func.value
        if self._module.value(tensor).device is Device.CPU or not self._reads.is_tensor_of_step(tensor):
            return None
        return CollectedCopy(copy, joined, place.step)

    def _joined(self, node: cst.BaseExpression, loop: cst.CSTNode) -> cst.Call | None:
        """The first call that joins a list which is empty before the loop, and not read in it."""
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if not isinstance(node, cst.Name) or home is None or home is not self._tree.scope_of(loop):
            return None
        bound = home.bindings[node.value]
        start = unpacked(bound[0].value, bound[0].path)
        if not isinstance(start, cst.List) or start.elements or self._module.fact(Loops).around(bound[0].node):
            return None
        joined: list[cst.Call] = []
        for use in self._module.names.uses_in(home, node.value):
            above = self._tree.parent(use)
            outer = self._tree.parent(above) if above is not None else None
            is_append = isinstance(above, cst.Attribute) and above.attr.value == "append"
            is_target = isinstance(above, cst.AssignTarget) or self._tree.within(use, bound[0].node)
            if is_append or is_target or bound[0] not in self._module.values.reaching.of(use):
                continue
            is_joined = isinstance(outer, cst.Call) and self._module.name_of(outer.func) in _JOINING
            if not is_joined or not isinstance(outer, cst.Call) or self._tree.within(use, loop):
                return None
            joined.append(outer)
        return joined[0] if joined else None


def _copied(node: cst.BaseExpression) -> cst.Call | None:
    """``x.cpu()`` of ``x.cpu().numpy()``."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        if called_name(node) == "cpu":
            return node
        if called_name(node) not in _BEHIND:
            return None
        node = node.func.value
    return None
