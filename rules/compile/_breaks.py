"""Operations that break the graph in code that runs compiled, as tested with torch 2.13."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.switches import Switches
from torchlint.model.semantics.knowledge import PARAMETERLESS, Kind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.literals import is_true

from ._conditions import depends_on_tensor, is_tensor
from ._kinds import BreakKind
from ._traced import Traced, TracedCode

_LOG_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
_OUTPUT = frozenset({"builtins.print", "warnings.warn", "sys.stdout.flush", "sys.stdout.write"})
_PYTHON = frozenset(
    {
        "builtins.open",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "gc.collect",
        "random.choice",
        "random.choices",
        "random.random",
        "random.sample",
        "random.shuffle",
        "time.monotonic",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.process_time",
        "time.sleep",
        "time.time",
        "time.time_ns",
        "torch.allclose",
        "torch.equal",
        "torch.load",
        "torch.manual_seed",
        "torch.save",
        "torch.Generator",
    }
)
#: Operators whose result has a data-dependent number of rows.
_DYNAMIC = frozenset(
    {"torch.nonzero", "torch.argwhere", "torch.masked_select", "torch.unique", "torch.unique_consecutive"}
    | {"torch.bincount"}
)
_DYNAMIC_METHODS = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"})
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
#: Constructors of modules without their own parameters.
_HARMLESS = ("Sequential", "ModuleList", "ModuleDict", "Buffer", "Identity")


@dataclass(frozen=True, eq=False)
class Break:
    """A place in a traced function where the compiler ends the graph and starts a new one."""

    node: cst.CSTNode
    traced: Traced
    kind: BreakKind


class Breaks:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._traced = module.fact(TracedCode)

    def all(self) -> Iterator[Break]:
        """Every place that breaks a graph in code that runs compiled, in order."""
        found: list[Break] = []
        for traced in self._traced.functions.values():
            whole = traced.site.option("fullgraph")
            if whole is not None and is_true(whole.value):
                continue  # it would raise an error, or it captures data-dependent operations
            for call in self._traced.calls(traced):
                kind = self._kind_of_call(call)
                if kind is not None:
                    found.append(Break(call, traced, kind))
            for node in self._module.tree.nodes_in(traced.function.body):
                if isinstance(node, (cst.If, cst.While, cst.IfExp)) and depends_on_tensor(self._module, node.test):
                    if self._traced.is_reached(node.test, traced.function):
                        found.append(Break(node.test, traced, BreakKind.BRANCH))
                elif isinstance(node, cst.Subscript) and self._selects_by_mask(node):
                    if self._traced.is_reached(node, traced.function):
                        found.append(Break(node, traced, BreakKind.SHAPE))
        yield from sorted(found, key=lambda item: self._module.tree.index(item.node))

    def _kind_of_call(self, call: cst.Call) -> BreakKind | None:
        name = self._module.name_of(call.func)
        if name in _OUTPUT or self._logs(call, name):
            return BreakKind.OUTPUT
        if name in _PYTHON or (name or "").startswith("numpy.random."):
            return BreakKind.PYTHON
        if name == "copy.deepcopy" and call.args:
            copied = self._module.value(call.args[0].value)
            return BreakKind.PYTHON if copied.kind in (Kind.TENSOR, Kind.MODULE) and copied.sure else None
        if self._reads_value(call, name):
            return None if self._captures("capture_scalar_outputs") else BreakKind.READ
        if self._has_dynamic_shape(call, name):
            return None if self._captures("capture_dynamic_output_shape_ops") else BreakKind.SHAPE
        if name is not None and name.startswith("torch.nn.") and name.count(".") == 2:
            last = last_part(name)
            holds = (
                last[:1].isupper() and not last.endswith("Loss") and not last.startswith((*PARAMETERLESS, *_HARMLESS))
            )
            return BreakKind.LAYER if holds else None
        value = self._module.value(call.func) if name is None else None
        if value is None or not value.sure or value.name not in _RECURRENT or self._captures("allow_rnn"):
            return None
        return BreakKind.RECURRENT

    def _captures(self, flag: str) -> bool:
        return any(
            switch.value == "True" for switch in self._module.fact(Switches).flags(f"torch._dynamo.config.{flag}")
        )

    def _logs(self, call: cst.Call, name: str | None) -> bool:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _LOG_LEVELS:
            return False
        if name is not None:
            return name.startswith(("logging.", "loguru.logger."))
        if not isinstance(func.value, cst.Name):
            return False
        values = [binding.value for binding in self._module.names.bindings(func.value)]
        return bool(values) and all(
            isinstance(value, cst.Call) and self._module.name_of(value.func) == "logging.getLogger" for value in values
        )

    def _reads_value(self, call: cst.Call, name: str | None) -> bool:
        if name in ("builtins.float", "builtins.int", "builtins.bool"):
            return len(call.args) == 1 and is_tensor(self._module, call.args[0].value)
        if not isinstance(call.func, cst.Attribute) or call.args or name is not None:
            return False
        value = self._module.value(call.func.value)
        if call.func.attr.value == "item":
            return value.kind not in (Kind.ARRAY, Kind.NUMBER)
        return call.func.attr.value == "tolist" and value.kind is Kind.TENSOR and value.sure

    def _has_dynamic_shape(self, call: cst.Call, name: str | None) -> bool:
        keywords = keywords_of(call).keys()
        if any(item.star for item in call.args):
            return False
        if name == "torch.where":
            return len(call.args) == 1
        if name == "torch.nn.functional.one_hot":
            return len(call.args) == 1
        if name in _DYNAMIC:
            return "size" not in keywords
        if name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value in _DYNAMIC_METHODS:
            owner = self._module.value(call.func.value)
            return owner.kind in (Kind.TENSOR, Kind.UNKNOWN) and self._module.name_of(call.func.value) is None
        return False

    def _selects_by_mask(self, node: cst.Subscript) -> bool:
        """``x[x > 0]``, if it is read."""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        if not isinstance(index, cst.Index) or not isinstance(index.value, cst.Comparison):
            return False
        if self._captures("capture_dynamic_output_shape_ops"):
            return False
        if any(target is node for target, _, _ in self._module.tree.stores):
            return False
        left = index.value.left
        return self._module.code(left) == self._module.code(node.value) or is_tensor(self._module, left)
