"""Results that a loop copies to the CPU at every step, only to join them after the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.training.loops import Loops
from torchlint.model.training.step_places import StepPlaces

from ._host_reads import HostRead, HostReads, WaitingStep
from ._kept_tensors import is_overwritten
from ._step_tensors import StepTensors

#: Functions of NumPy that join arrays, with those of torch that join tensors along the same dimension.
_OF_NUMPY = {"numpy.concatenate": "cat", "numpy.stack": "stack", "numpy.vstack": "vstack"}
_OF_TORCH = frozenset(f"torch.{name}" for name in ("cat", "concat", "concatenate", "stack", "vstack"))
#: Methods behind the copy.
_BEHIND = ("numpy", "detach")


@dataclass(frozen=True, eq=False)
class CollectedCopy:
    """A copy that is appended to a list."""

    appended: cst.Call  #: ``x.detach().cpu().numpy()``
    call: cst.Call  #: ``x.detach().cpu()``
    tensor: cst.BaseExpression  #: ``x.detach()``
    joined: tuple[cst.Call, ...]  #: what joins the list after the loop
    loop: cst.CSTNode


class CollectedCopies:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._reads = module.fact(HostReads)
        self._tensors = module.fact(StepTensors)

    def all(self) -> Iterator[CollectedCopy]:
        """The copies of the file, in order, of loops that do not wait for the GPU otherwise."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        found: dict[cst.CSTNode, list[CollectedCopy]] = {}
        for call in self._module.own_methods("append"):
            copy = self._appended(call)
            if copy is not None:
                found.setdefault(copy.loop, []).append(copy)
        for loop, copies in found.items():
            reads = [HostRead(copy.call, copy.call, loop, False) for copy in copies]
            if not self._reads.waits_otherwise(WaitingStep(loop, tuple(reads))):
                yield from copies

    def on_gpu(self, copy: CollectedCopy) -> edits.Edits | None:
        """The edits that keep the tensors on the GPU until they are joined; None if that may fail."""
        join = copy.joined[0]
        name, text = self._module.name_of(join.func) or "", self._module.code(copy.tensor)
        is_array = called_name(copy.appended) == "numpy"
        if len(copy.joined) > 1 or self._appends(join.args[0].value) != 1:
            return None
        if is_overwritten(self._module, copy.tensor, copy.loop, copy.loop):
            return None
        if self._module.comment_on(copy.appended) or self._module.comment_on(join):
            return None
        if ".detach()" in self._module.code(copy.appended) and not text.endswith(".detach()"):
            text += ".detach()"
        kept = edits.replace(self._module, copy.appended, text)
        if not is_array:
            code = f"{self._module.code(join)}.cpu()"
            return (*kept, *edits.replace(self._module, join, code)) if name in _OF_TORCH else None
        named = edits.name_module(self._module, "torch", join)
        if name not in _OF_NUMPY or named is None or not all(map(_is_first_axis, join.args[1:])):
            return None
        code = f"{named[0]}.{_OF_NUMPY[name]}({self._module.code(join.args[0].value)}).cpu().numpy()"
        return (*named[1], *kept, *edits.replace(self._module, join, code))

    def _appends(self, node: cst.BaseExpression) -> int:
        """How many statements append to a list."""
        names = self._module.names
        home = names.home_of(node) if isinstance(node, cst.Name) else None
        uses = names.uses_in(home, node.value) if isinstance(node, cst.Name) and home is not None else []
        return sum(isinstance(self._tree.parent(use), cst.Attribute) for use in uses)

    def _appended(self, call: Call) -> CollectedCopy | None:
        if len(call.node.args) != 1:
            return None
        appended = call.node.args[0].value
        copy = _copied(appended)
        if not isinstance(appended, cst.Call) or copy is None or self._reads.read_by(appended) is not None:
            return None
        place = self._module.fact(StepPlaces).of(call.node)
        if place is None or not place.is_loop or place.calls:
            return None
        joined = self._joined(call.receiver, place.step)
        if not joined or not isinstance(copy.func, cst.Attribute):
            return None
        tensor = copy.func.value
        if self._module.value(tensor).device is Device.CPU or not self._tensors.is_tensor_of_step(tensor):
            return None
        return CollectedCopy(appended, copy, tensor, joined, place.step)

    def _joined(self, node: cst.BaseExpression, loop: cst.CSTNode) -> tuple[cst.Call, ...]:
        """The calls that join a list which is empty before the loop, and not read in it; none for another list."""
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if not isinstance(node, cst.Name) or home is None or home is not self._tree.scope_of(loop):
            return ()
        bound = home.bindings[node.value]
        start = unpacked(bound[0].value, bound[0].path)
        if not isinstance(start, cst.List) or start.elements or self._module.fact(Loops).around(bound[0].node):
            return ()
        joined: list[cst.Call] = []
        for use in self._module.names.uses_in(home, node.value):
            above = self._tree.parent(use)
            outer = self._tree.parent(above) if above is not None else None
            is_append = isinstance(above, cst.Attribute) and above.attr.value == "append"
            is_target = isinstance(above, cst.AssignTarget) or self._tree.within(use, bound[0].node)
            if is_append or is_target or bound[0] not in self._module.values.reaching.of(use):
                continue
            name = self._module.name_of(outer.func) if isinstance(outer, cst.Call) else None
            if name not in {*_OF_NUMPY, *_OF_TORCH, "numpy.array"} or self._tree.within(use, loop):
                return ()
            assert isinstance(outer, cst.Call)
            joined.append(outer)
        return tuple(joined)


def _is_first_axis(argument: cst.Arg) -> bool:
    """``axis=0``, the default."""
    is_axis = argument.keyword is None or argument.keyword.value == "axis"
    return is_axis and isinstance(argument.value, cst.Integer) and argument.value.value == "0"


def _copied(node: cst.BaseExpression) -> cst.Call | None:
    """``x.cpu()`` of ``x.cpu().numpy()``."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        if called_name(node) == "cpu":
            return node
        if called_name(node) not in _BEHIND:
            return None
        node = node.func.value
    return None
