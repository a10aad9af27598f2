"""Copies to the host that do not block, and are read before anything waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_methods import METHODS
from torchlint.model.semantics.moves import device_of
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.literals import is_true

#: Methods that give another view of the same memory.
_VIEWS = frozenset("detach contiguous view reshape squeeze unsqueeze flatten t transpose permute".split())
#: Methods that read the values, or make what reads them.
_READS = frozenset(
    "numpy tolist item float double long int half bool clone sum mean max min argmax argmin argsort sort any all "
    "nonzero unique norm prod std var topk".split()
)
#: Functions that read the values of their argument.
_READERS = frozenset(
    {"builtins.float", "builtins.int", "builtins.bool", "builtins.list", "builtins.print", "builtins.str"}
    | {"numpy.array", "numpy.asarray", "numpy.concatenate", "numpy.stack"}
)
#: Parts of names of torch that may wait for the GPU.
_WAITING = ("torch.cuda.", "torch.distributed.", "torch.save", "torch.equal", "torch.allclose", "torch.accelerator.")


@dataclass(frozen=True, eq=False)
class EarlyRead:
    """A copy ``x.to("cpu", non_blocking=True)``, and what reads it too early."""

    copy: cst.Call
    read: cst.CSTNode


class EarlyReads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[EarlyRead]:
        """The copies of the file that are read too early, in order."""
        for call in self._module.own_methods("to"):
            if self._copies_to_host(call):
                read = self._read_of(call.node) or self._read_of_variable(call.node)
                if read is not None:
                    yield EarlyRead(call.node, read)

    def flag(self, call: cst.Call) -> cst.Arg | None:
        """The argument ``non_blocking=True``."""
        for item in call.args:
            if item.keyword is not None and item.keyword.value == "non_blocking":
                return item if is_true(item.value) else None
        return None

    def _copies_to_host(self, call: Call) -> bool:
        if self.flag(call.node) is None or call.opaque:
            return False
        target = call.argument("device").value
        if target is None or device_of(target, self._module.values) is not Device.CPU:
            return False
        sure = isinstance(target, (cst.SimpleString, cst.Call)) or self._module.value(target).sure
        return sure and self._module.value(call.receiver).device is not Device.CPU

    def _read_of(self, node: cst.BaseExpression) -> cst.CSTNode | None:
        """What reads the value of an expression where it is; None if that is not seen."""
        tensor: cst.CSTNode = node
        for above, child in climb(self._tree, node):
            if isinstance(above, cst.Attribute):
                if above.value is not child or above.attr.value not in _VIEWS | _READS | {"data", "T"}:
                    return None
                if above.attr.value in ("data", "T"):
                    tensor = above
            elif isinstance(above, cst.Call) and above.func is child and isinstance(child, cst.Attribute):
                if child.attr.value in _READS:
                    return above
                tensor = above
            elif isinstance(above, cst.Arg):
                call = self._tree.parent(above)
                if not isinstance(call, cst.Call) or child is not tensor or above.keyword is not None:
                    return None
                return call if (self._module.name_of(call.func) or "") in _READERS else None
            else:
                return None
        return None

    def _read_of_variable(self, call: cst.Call) -> cst.CSTNode | None:
        """The first use of the variable, if it is in one of the next statements and reads the value."""
        statement = self._tree.parent(call)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0].target
        row = self._tree.parent(statement)
        block = self._tree.parent(row) if row is not None else None
        if not isinstance(target, cst.Name) or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        behind = next(index for index, item in enumerate(block.body) if item is row)
        for item in block.body[behind + 1 :]:
            if not isinstance(item, cst.SimpleStatementLine):
                return None
            uses = [node for node in self._tree.inside(item, cst.Name) if node.value == target.value]
            end = self._tree.index(uses[0]) if uses else self._tree.last(item) + 1
            if any(self._may_wait(inner) for inner in self._tree.calls_in(item) if self._is_run_before(inner, end)):
                return None
            if uses:
                return self._read_of(uses[0])
        return None

    def _is_run_before(self, call: cst.Call, end: int) -> bool:
        """Whether the call is complete before the node with the index ``end``."""
        return self._tree.last(call) < end

    def _may_wait(self, call: cst.Call) -> bool:
        """Whether a call may wait for the GPU."""
        name = self._module.name_of(call.func)
        if name is not None:
            return not name.startswith("torch.") or name.startswith(_WAITING)
        func = call.func
        if not isinstance(func, cst.Attribute):
            return True
        if func.attr.value == "to":
            return self.flag(call) is None
        if func.attr.value == "numpy":  # of a tensor on the CPU
            return False
        return func.attr.value in ("cpu", "cuda") or func.attr.value not in METHODS | _VIEWS
