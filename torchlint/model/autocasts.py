"""The autocasts of a file: on which device, into which number format, and whether they are switched on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model import knowledge
from torchlint.model.calls import Call
from torchlint.model.inference import Region
from torchlint.model.knowledge import Kind
from torchlint.model.loops import LoopKind, is_batch
from torchlint.model.regions import GradMode
from torchlint.model.tree import COMPREHENSIONS, dotted_name

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: What autocast computes in when it is not told.
_DEFAULTS = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}
_LOW = frozenset({"torch.bfloat16", "torch.float16", "torch.half"})
_FORMATS = _LOW | {"torch.float64", "torch.double"}
#: What a variable may be called that holds an autocast.
_HELD = re.compile(r"amp|cast|ctx|context|precision", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Autocast:
    """A call of ``torch.autocast`` or of one of its older names."""

    call: Call
    device: str  #: "cuda", "cpu", another device, or "" for unknown
    dtype: str  #: "torch.bfloat16", "torch.float16", another format, or "" for unknown
    #: The argument: False and True where it is literal (or absent), its text where it is an expression.
    enabled: bool | str


@dataclass(frozen=True, eq=False)
class Recast:
    """A forward for which autocast rounds the same float32 weights again and again."""

    region: Region  #: the forward, its network, and the function that runs it
    autocast: Autocast
    layer: Call  #: a layer whose weights are rounded
    reason: str  #: why the rounded weights are not kept


class Autocasts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def all(self) -> list[Autocast]:
        """The calls of torch's autocast, in order; ``autocast(enabled=False)`` too."""
        return [self._described(call) for call in self._module.calls(*knowledge.AUTOCASTS)]

    @cached_property
    def others(self) -> bool:
        """Whether the file may enter an autocast that is not among ``all``: another file's, or one in a variable."""
        module = self._module
        called = {found.call.node.func for found in self.all}
        names = [node for nodes in module.tree.names.values() for node in nodes]
        for node in (*names, *module.tree.attributes):
            if node not in called and module.names.alternatives(node) & knowledge.AUTOCASTS:
                return True  # handed on, or under a name that may be something else
        for call in module.tree.calls:
            if "autocast" in _last_name(call.func) and call.func not in called:
                if not module.definitions.called(call, module.values):
                    return True
        managers = (item.item for node in module.tree.withs for item in node.items)
        return any(_HELD.search(_last_name(manager)) and not module.value(manager) for manager in managers)

    def around(self, node: cst.CSTNode) -> Autocast | None:
        """The innermost of them around ``node``: entered by a ``with``, or on its function."""
        tree = self._module.tree
        known: dict[cst.CSTNode, Autocast] = {found.call.node: found for found in self.all}
        child = node
        for above in tree.ancestors(node):
            managers: list[cst.CSTNode] = []
            if isinstance(above, cst.With) and child is above.body:
                managers = [item.item for item in reversed(above.items)]
            elif isinstance(above, cst.FunctionDef) and child is above.body:
                managers = [item.decorator for item in above.decorators]
            for manager in managers:
                made = self._module.value(manager)
                for call in {manager} | (set(made.origins) if made.kind is Kind.CONTEXT else set()):
                    if call in known:
                        return known[call]
            if isinstance(above, (cst.FunctionDef, cst.Lambda)):
                return None
            child = above
        return None

    def is_low(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs under an autocast that is not switched off, there or in a caller."""
        found = self.around(node)
        if found is not None:
            return found.enabled is not False and found.dtype != "torch.float32"
        return self._module.regions.autocast(node)

    @cached_property
    def recasts(self) -> list[Recast]:
        """Forwards of networks that are made here in float32 and never trained, run for one item at a time."""
        module = self._module
        if module.is_test or module.gradients.backwards or self._is_cast:
            return []
        if any(module.value(call).kind is Kind.OPTIMIZER for call in module.tree.calls):
            return []
        found: list[Recast] = []
        for call in module.tree.calls:
            autocast = self.around(call)
            if autocast is None or autocast.enabled is not True or autocast.dtype not in _LOW:
                continue
            reason = self._why_not_kept(call, autocast) if module.runs_network(call) else None
            if reason is None:
                continue
            network = module.network_of(call)
            layers = module.layers.of(network)
            layer = layers.product if layers is not None and not module.sizes.is_tiny(network) else None
            if layer is not None and not any(item.autocast is autocast for item in found):
                region = Region(call, network, module.function_of(call) or module.root, (reason, None))
                found.append(Recast(region, autocast, layer, reason))
        return found

    def _why_not_kept(self, call: cst.Call, autocast: Autocast) -> str | None:
        """Why each run of ``call`` rounds the weights anew; None if it does not, or batches are what is run."""
        module = self._module
        loops = module.loops.around(call)
        if loops and (is_batch(loops[0].over) or loops[0].kind is LoopKind.HOT or _takes_batches(loops[0].node)):
            return None
        function = module.function_of(call)
        inside = [item for item in loops if module.tree.within(autocast.call.node, item.node.body)]
        again = inside or self._is_repeated(function)
        if module.grad_mode(call) is GradMode.INFERENCE and (loops or again):
            return "inference mode keeps no rounded weights"
        if module.inference.is_frozen(module.network_of(call)) and (loops or again):
            return "rounded weights are kept only of parameters that require gradients"
        return "each entry into autocast rounds them anew" if again else None

    def _is_repeated(self, function: cst.FunctionDef | None) -> bool:
        """Whether the file calls ``function`` in a loop, for something else than a batch."""
        module = self._module
        if function is None:
            return False
        for call in module.callers(function).calls:
            loops = module.loops.around(call)
            if loops and not is_batch(loops[0].over) and not _takes_batches(loops[0].node):
                return True
            if any(isinstance(above, COMPREHENSIONS) for above in module.tree.ancestors(call)):
                return True
        return False

    def is_beside_network(self, recast: Recast) -> bool:
        """Whether autocast is on exactly where the network is: both on CUDA for sure, or both on the same variable."""
        module = self._module
        given = recast.autocast.call.argument("device_type").value
        moved = {module.code(item.value) for call in module.methods("to") for item in call.args[:1]}
        if given is not None and not isinstance(given, cst.SimpleString):
            return module.code(given).removesuffix(".type") in moved
        if recast.autocast.device != "cuda" or any(module.calls("torch.cuda.is_available")):
            return False
        return any(module.methods("cuda")) or bool(moved & {'"cuda"', "'cuda'"})

    @cached_property
    def _is_cast(self) -> bool:
        """Whether the file may put a network into another format itself, or ask for another default."""
        module = self._module
        if any(module.methods("half", "bfloat16", "double")) or any(module.calls("torch.set_default_dtype")):
            return True
        return any(
            module.name_of(item.value) in _FORMATS
            for call in module.methods("to", "type", "from_pretrained")
            for item in call.args
        )

    def _described(self, call: Call) -> Autocast:
        module = self._module
        if ".cuda." in call.name or ".cpu." in call.name:
            device = "cuda" if ".cuda." in call.name else "cpu"
        else:
            given = module.value(call.argument("device_type").value)
            device = given.constant.partition(":")[0] if isinstance(given.constant, str) else given.device
        dtype = call.argument("dtype")
        if dtype.value is not None and dtype.literal() != "None":
            name = module.name_of(dtype.value) or ""  # of a parameter only its default would be seen
        else:
            name = "" if call.opaque else _DEFAULTS.get(device, "")
        enabled = call.argument("enabled")
        switch: bool | str = True
        if enabled.value is not None:
            literal = enabled.literal()
            switch = literal == "True" if literal in ("True", "False") else module.code(enabled.value)
        elif not enabled.absent:
            switch = "**"
        return Autocast(call, device, name, switch)


def _last_name(node: cst.CSTNode) -> str:
    return (dotted_name(node) or "").rpartition(".")[2]


def _takes_batches(loop: cst.For | cst.While) -> bool:
    """Whether a loop of unknown value speaks of batches: ``for images, labels in loader``."""
    if not isinstance(loop, cst.For):
        return False
    names = f"{dotted_name(loop.target) or ''} {dotted_name(loop.iter) or ''}".lower()
    return isinstance(loop.target, cst.Tuple) or any(word in names for word in ("batch", "loader", "dataset"))
