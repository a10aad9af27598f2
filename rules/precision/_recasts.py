"""Where autocast casts the same float32 weights repeatedly: inference, one item at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocast, Autocasts
from torchlint.model.numerics.layers import NetworkLayers
from torchlint.model.numerics.sizes import Sizes
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import bare, dotted_name, last_part
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.frozen import Frozen
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_site import InferenceSite
from torchlint.model.training.loops import Loop, LoopKind, Loops, is_batch
from torchlint.model.training.networks import Networks

_LOW = frozenset({"torch.bfloat16", "torch.float16", "torch.half"})
#: Layers and functions that raise an error for a float32 input and 16-bit weights: autocast casts neither, anywhere ...
_NORMS = re.compile(r"(?:Batch|Instance)Norm|(?:batch|instance)_norm")
#: ... or on CUDA only.
_NORMS_ON_CPU = re.compile(r"(?:Layer|Group)Norm|(?:layer|group)_norm|^Transformer")
#: Methods that prepare a network before it is used.
_PREPARING = frozenset(
    "apply compile cpu cuda eval float load_state_dict requires_grad_ share_memory tie_weights to train".split()
)
_FORMATS = _LOW | {"torch.float64", "torch.double"}


@dataclass(frozen=True, eq=False)
class Recast:
    """A forward pass for which autocast casts weights that it has cast before."""

    site: InferenceSite  #: the forward pass, its network, and the function that runs it
    autocast: Autocast
    layer: Call  #: a layer whose weights are cast
    reason: str  #: why the cast weights are not cached


class Recasts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def all(self) -> list[Recast]:
        """Such forward passes, of networks that are created here in float32 and never trained; one per autocast."""
        module = self._module
        if module.fact(Gradients).backwards:
            return []
        around = [(call, module.fact(Autocasts).around(call)) for call in module.tree.calls]
        entered = [
            (call, item) for call, item in around if item is not None and item.enabled is True and item.dtype in _LOW
        ]
        if not entered or self._casts_networks:
            return []
        if any(module.value(call).kind is Kind.OPTIMIZER for call in module.tree.calls):
            return []
        found: dict[Autocast, Recast] = {}
        for call, autocast in entered:
            if autocast in found:
                continue
            reason = self._reason(call, autocast) if module.fact(Networks).runs_network(call) else None
            network = module.fact(Networks).network_of(call)
            layers = module.fact(NetworkLayers).of(network) if reason is not None else None
            if reason is None or layers is None or layers.product is None or module.fact(Sizes).is_tiny(network):
                continue
            site = InferenceSite(call, network, module.function_of(call) or module.root, (reason, None))
            found[autocast] = Recast(site, autocast, layers.product, reason)
        return list(found.values())

    def _reason(self, call: cst.Call, autocast: Autocast) -> str | None:
        """Why each run of ``call`` casts the weights again; None if it does not, or if it runs batches."""
        module = self._module
        loops = module.fact(Loops).around(call)
        if loops and (loops[0].kind is LoopKind.HOT or _over_batches(loops[0])):
            return None
        outer = autocast
        while (beyond := module.fact(Autocasts).around(outer.call.node)) is not None:
            outer = beyond  # the cast weights are cached until the outermost block ends
        entered = any(module.tree.within(outer.call.node, loop.node.body) for loop in loops)
        entered = entered or self._is_called_again(module.function_of(call))
        if not loops and not entered:
            return None
        if module.fact(GradModes).of(call) is GradMode.INFERENCE:
            return "`inference_mode` disables the cache of cast weights"
        if module.fact(Frozen).has(module.fact(Networks).network_of(call)):
            return "autocast caches only weights that require gradients"
        return "the cache of cast weights is emptied after each autocast block" if entered else None

    def _is_called_again(self, function: cst.FunctionDef | None) -> bool:
        """Whether the file calls ``function`` in a loop that is not over batches, and not under an autocast."""
        module = self._module
        for call in module.callers(function).calls if function is not None else ():
            if module.fact(Autocasts).is_on(call):
                continue
            loops = module.fact(Loops).around(call)
            if loops and not _over_batches(loops[0]):
                return True
            if nearest(module.tree, call, *COMPREHENSIONS) is not None:
                return True
        return False

    def shares_device_with_network(self, recast: Recast) -> bool:
        """Whether autocast and the network are on the same device: both on CUDA, or both on the same variable."""
        module = self._module
        given = recast.autocast.call.argument("device_type").value
        devices = (call.argument("device").value for call in module.methods("to"))
        moved = {module.code(device) for device in devices if device is not None}
        if given is not None and not isinstance(given, cst.SimpleString):
            return module.code(given).removesuffix(".type") in moved
        if recast.autocast.device is not Device.CUDA or any(module.calls("torch.cuda.is_available")):
            return False
        return any(module.methods("cuda")) or bool(moved & {'"cuda"', "'cuda'"})

    def norm(self, recast: Recast) -> Call | None:
        """A norm of the network whose 16-bit weights may meet float32 inputs, which raises an error."""
        layers = self._module.fact(NetworkLayers).of(recast.site.model)
        if layers is None:
            return None
        on_cuda = recast.autocast.device is Device.CUDA and isinstance(
            recast.autocast.call.argument("device_type").value, (cst.SimpleString, type(None))
        )
        embeds = layers.any("Embedding", "EmbeddingBag", "embedding")  # its outputs are 16-bit too
        for call in layers.calls:
            name = last_part(call.name)
            if not call.name.startswith("torch.nn."):
                continue
            if _NORMS.search(name) or (_NORMS_ON_CPU.search(name) and not on_cuda and not embeds):
                return call
        return None

    def runs_in_float32(self, recast: Recast) -> bool:
        """Whether the file also runs the network outside of autocast, where 16-bit weights may meet float32 inputs."""
        module = self._module
        made = module.value(recast.site.model).origins
        return any(
            module.fact(Networks).runs_network(call)
            and not made.isdisjoint(module.value(module.fact(Networks).network_of(call)).origins)
            and not module.fact(Autocasts).is_low(call)
            for call in module.tree.calls
        )

    @cached_property
    def _casts_networks(self) -> bool:
        """Whether the file may create a network in another dtype, convert one, or set another default dtype."""
        module = self._module
        if any(module.methods("half", "bfloat16", "double")) or any(module.forest.calls("torch.set_default_dtype")):
            return True
        for call in module.tree.calls:
            formats = [item for item in call.args if module.name_of(item.value) in _FORMATS]
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if formats and (method in ("to", "type", "from_pretrained") or module.value(call).kind is Kind.MODULE):
                return True
        return False


def prepared(module: Module, site: InferenceSite) -> tuple[str, cst.CSTNode] | None:
    """The variable that the network of ``site`` is assigned to, and the last line that prepares it."""
    made = module.value(site.model).origins
    origin = next(iter(made)) if len(made) == 1 else None
    statement = module.tree.statement_of(origin) if origin is not None else None
    if not isinstance(statement, cst.Assign) or not module.is_own(statement) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    line = _line_of(module, statement)
    scope = module.names.home_of(target) if isinstance(target, cst.Name) else None
    if (
        not isinstance(target, cst.Name)
        or line is None
        or scope is None
        or module.value(statement.value).origins != made
    ):
        return None
    block = module.tree.parent(line)
    for use in module.names.uses_in(scope, target.value):
        if module.tree.index(use) <= module.tree.last(line):
            continue
        following = _line_of(module, module.tree.statement_of(use))
        if following is None or module.tree.parent(following) is not block or not _prepares(following, target.value):
            break
        line = following
    return target.value, line


def _line_of(module: Module, statement: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """The line, if ``statement`` is all of it."""
    line = module.tree.parent(statement)
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def _prepares(line: cst.SimpleStatementLine, name: str) -> bool:
    """``net.eval()``, ``net.to(device).eval()``, ``net = net.cuda()``."""
    statement = line.body[0]
    if isinstance(statement, cst.Assign):
        if len(statement.targets) != 1 or dotted_name(statement.targets[0].target) != name:
            return False
    elif not isinstance(statement, cst.Expr):
        return False
    node = bare(statement.value, _PREPARING, (), with_arguments=True)
    return node is not statement.value and dotted_name(node) == name


def _over_batches(loop: Loop) -> bool:
    """Whether a loop iterates over batches, or is named so: ``for images, labels in loader``."""
    if is_batch(loop.over) or not isinstance(loop.node, cst.For):
        return is_batch(loop.over)
    names = f"{dotted_name(loop.node.target) or ''} {dotted_name(loop.node.iter) or ''}".lower()
    return isinstance(loop.node.target, cst.Tuple) or any(word in names for word in ("batch", "loader", "dataset"))
