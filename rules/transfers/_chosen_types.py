"""Types of tensors of which the device decides: ``torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind

_TYPE = re.compile("tensor$", re.IGNORECASE)
_PREFIX = "torch.cuda."


def type_of(module: Module, call: cst.Call) -> str | None:
    """The type on the GPU that ``call`` makes a tensor of, if there is one of the same name for the CPU."""
    bound = module.values.reaching.only(call.func) if isinstance(call.func, cst.Name) else None
    if bound is None or bound.kind is not BindingKind.ASSIGN or bound.path or not isinstance(bound.value, cst.IfExp):
        return None
    names = [module.name_of(item) or "" for item in (bound.value.body, bound.value.orelse)]
    on_gpu = next((name for name in names if name.startswith(_PREFIX)), "")
    return on_gpu if on_gpu and f"torch.{on_gpu.removeprefix(_PREFIX)}" in names else None


def calls_of_types(module: Module) -> Iterator[cst.Call]:
    """The calls in a file of names that may be such types."""
    yield from (call for call in module.tree.calls_where(_TYPE.search) if module.is_own(call))
