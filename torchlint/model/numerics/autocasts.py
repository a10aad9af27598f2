"""Autocast: where it is on, on which device, into which number format."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import last_name

#: How many callers up an autocast is looked for.
_CALLER_DEPTH = 4
#: The dtype of autocast by default.
_DEFAULTS: dict[Device | None, str] = {Device.CUDA: "torch.float16", Device.CPU: "torch.bfloat16"}
#: What a variable may be called that contains an autocast.
_HELD = re.compile(r"amp|cast|ctx|context|precision", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Autocast:
    """A call of ``torch.autocast`` or of one of its older names."""

    call: Call
    device: Device | None  #: None if unknown
    dtype: str  #: "torch.bfloat16", "torch.float16", another format, or "" for unknown
    #: The argument: False and True where it is literal (or absent), its text where it is an expression.
    enabled: bool | str


class Autocasts(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._running: set[cst.CSTNode] = set()

    @cached_property
    def all(self) -> list[Autocast]:
        """The calls of torch's autocast, in order; ``autocast(enabled=False)`` too."""
        return [self._described(call) for call in self._forest.calls(*knowledge.AUTOCASTS)]

    @cached_property
    def _by_call(self) -> dict[cst.CSTNode, Autocast]:
        return {found.call.node: found for found in self.all}

    @cached_property
    def others(self) -> bool:
        """Whether the file may enter an autocast that is not among ``all``: another file's, or one in a variable."""
        forest = self._forest
        called = {found.call.node.func for found in self.all}
        names = [node for nodes in forest.tree.names.values() for node in nodes]
        for node in (*names, *forest.tree.attributes):
            if node not in called and forest.names.alternatives(node) & knowledge.AUTOCASTS:
                return True  # passed on, or under a name that may be something else
        for call in forest.tree.calls_where(lambda name: "autocast" in name):
            if last_name(call.func) and call.func not in called:
                if not forest.definitions.called(call, forest.values):
                    return True
        managers = (item.item for node in forest.tree.withs for item in node.items)
        return any(_HELD.search(last_name(manager)) and not forest.value(manager) for manager in managers)

    def around(self, node: cst.CSTNode) -> Autocast | None:
        """The innermost of them around ``node``: entered by a ``with``, or on its function."""
        known = self._by_call
        if not known:
            return None
        for above, child in climb(self._forest.tree, node):
            managers: list[cst.CSTNode] = []
            if isinstance(above, cst.With) and child is above.body:
                managers = [item.item for item in reversed(above.items)]
            elif isinstance(above, cst.FunctionDef) and child is above.body:
                managers = [item.decorator for item in above.decorators]
            for manager in managers:
                made = self._forest.value(manager)
                for call in {manager} | (set(made.origins) if made.kind is Kind.CONTEXT else set()):
                    if call in known:
                        return known[call]
            if isinstance(above, (cst.FunctionDef, cst.Lambda)):
                return None
        return None

    def is_low(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs under an autocast that is not switched off, there or in a caller."""
        found = self.around(node)
        if found is not None:
            return found.enabled is not False and found.dtype != "torch.float32"
        return self.is_on(node)

    def is_on(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` may run under autocast: around it, on its function, or in a caller."""
        return self._is_on(node, _CALLER_DEPTH, self._is_autocast)

    def is_seen_on(self, node: cst.CSTNode) -> bool:
        """The same, without methods of unknown objects: ``accelerator.autocast()`` may be off by default."""
        return self._is_on(node, _CALLER_DEPTH, self._is_seen_autocast)

    def _is_on(self, node: cst.CSTNode, depth: int, is_autocast: Callable[[cst.CSTNode], bool]) -> bool:
        function: cst.FunctionDef | None = None
        for above, child in climb(self._forest.tree, node):
            if type(above) is cst.With and any(is_autocast(item.item) for item in above.items):
                return True
            if type(above) is cst.FunctionDef and child is above.body:
                function = above
                break
        if function is None:
            return False
        if any(is_autocast(decorator.decorator) for decorator in function.decorators):
            return True
        if depth <= 0 or function in self._running:
            return False
        self._running.add(function)
        try:
            callers = self._forest.fact(Dispatch).callers(function)  # also of a network whose `forward` it is
            return any(self._is_on(call, depth - 1, is_autocast) for call in callers)
        finally:
            self._running.discard(function)

    def _is_autocast(self, node: cst.CSTNode) -> bool:
        target = self._forest.callee(node)
        if any(self._forest.names.alternatives(item) & knowledge.AUTOCASTS for item in self._choices(target)):
            return True
        if "autocast" in last_name(target):
            return True
        return isinstance(node, (cst.Name, cst.Attribute)) and "autocast" in self._forest.value(node).name

    def _is_seen_autocast(self, node: cst.CSTNode) -> bool:
        return self._is_autocast(node) and not self._is_out_of_sight(node)

    def _is_out_of_sight(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` calls a method of an unknown object."""
        forest = self._forest
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        return not forest.names.alternatives(node.func) and not forest.definitions.called(node, forest.values)

    def _choices(self, target: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
        """``autocast`` and ``nullcontext`` of ``amp = autocast if args.amp else nullcontext``; any other as it is."""
        chosen = self._forest.values.reaching.assigned(target)
        return (chosen.body, chosen.orelse) if isinstance(chosen, cst.IfExp) else (target,)

    def _described(self, call: Call) -> Autocast:
        forest = self._forest
        if ".cuda." in call.name or ".cpu." in call.name:
            device: Device | None = Device.CUDA if ".cuda." in call.name else Device.CPU
        else:
            given = forest.value(call.argument("device_type").value)
            device = Device.named(given.constant) if isinstance(given.constant, str) else given.device
        dtype = call.argument("dtype")
        if dtype.value is not None and dtype.literal() != "None":
            name = forest.name_of(dtype.value) or ""  # of a parameter only its default would be seen
        else:
            name = "" if call.opaque else _DEFAULTS.get(device, "")
        enabled = call.argument("enabled")
        switch: bool | str = True
        if enabled.value is not None:
            literal = enabled.literal()
            switch = literal == "True" if literal in ("True", "False") else forest.code(enabled.value)
        elif not enabled.absent:
            switch = "**"
        return Autocast(call, device, name, switch)
