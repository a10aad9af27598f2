"""Reasons for and against compiling a network that a training loop runs."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.module import Module
from torchlint.model.numerics.convolutions import Convolutions
from torchlint.model.numerics.precision import Precision
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.tensors.devices import Devices
from torchlint.model.training.environments import Environments
from torchlint.model.training.steps import TrainingLoop
from torchlint.rule import Note

from ._execution import Execution
from ._sites import CompileSites

#: Datasets whose items all have one shape.
_EQUAL = tuple(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "USPS", "CIFAR10", "CIFAR100", "SVHN", "STL10")
)
#: Words that show that the file compiles, uses several GPUs, varies its input sizes, or needs eager code.
_SPEAKS_AGAINST = re.compile(
    r"compile|^jit$|torchscript|dynamo|cuda_?graph|(^|_)(ddp|fsdp|deepspeed|apex|xla|tpu)(_|$)|data_?parallel|"
    r"init_process_group|collate|pad_sequence|tokeni[sz]er|packed|(^|_)(lstm|gru|rnn)|hook|checkpoint_sequential|"
    r"create_graph|retain_graph|sparse|adj(acency)?$|edge_index|meta_|maml|spectral_norm|weight_norm|prun",
    re.IGNORECASE,
)
#: Typical names of the files of a project that define networks.
_OWN_FILES = re.compile(r"\.|(models?|modules?|networks?|nets?|architectures?|\w*(net|unet|vae|gan|vit))(\.|$)")
_LIBRARIES = ("torch_geometric", "dgl", "transformers", "higher", "learn2learn", "horovod", "torch_xla", "timm.data")
#: Deprecated constructors: with an array of another dtype, or a shape, they raise an error when compiled (torch 2.13).
_LEGACY = re.compile(r"torch\.(cuda\.)?(BFloat16|Bool|Byte|Char|Double|Float|Half|Int|Long|Short)Tensor")


def uses_gpu(forest: Module) -> bool:
    return forest.fact(Devices).uses_cuda or any(forest.calls("torch.accelerator.current_accelerator"))


def is_unsuitable(forest: Module) -> bool:
    if forest.fact(CompileSites).all or any(forest.imports(name) for name in _LIBRARIES):
        return True
    if (
        forest.fact(Environments).are_played
        or forest.fact(Precision).differentiates_twice
        or forest.fact(Convolutions).varies
    ):
        return True
    return forest.fact(_Words).speak_against or any(map(_speaks_against, forest.imported_names))


class _Words(ForestFact):
    """The names that a program contains."""

    @cached_property
    def speak_against(self) -> bool:
        """Whether one of them is of something that is not to be compiled, or is not compiled well."""
        tree = self._forest.tree
        return any(map(_speaks_against, {*tree.names, *tree.attributes_by_name, *tree.keywords}))


def _speaks_against(name: str) -> bool:
    return any(_SPEAKS_AGAINST.search(part) for part in name.split("."))


def fixed_shape(forest: Module) -> Note | None:
    """What shows that networks get inputs of one shape at every step of the program; None if nothing does."""
    shown = forest.fact(Convolutions).one_size
    if shown is not None:
        return Note.at(forest, shown, "all images have one size")
    for call in (*forest.calls(*_EQUAL), *forest.calls("torch.utils.data.TensorDataset")):
        return Note.at(forest, call.node, "all items have one shape")
    return None


class SameInputs(ForestFact):
    """Which steps give their networks the same inputs again and again."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest)
        self._known: dict[cst.CSTNode, bool] = {}

    def note(self, step: TrainingLoop) -> Note | None:
        """What shows that the network gets the same inputs at every step; None if nothing does."""
        if step.forward not in self._known:
            given = step.forward.args
            is_long = step.body is step.loop and bool(given) and not _is_short(self._forest, step.loop)
            self._known[step.forward] = is_long and all(_is_kept(self._forest, item, step) for item in given)
        return Note("the inputs are the same tensors at every step") if self._known[step.forward] else None


def is_shown(forest: Module, call: cst.Call) -> bool:
    """Whether the network is defined in the project, with several layers, or is a well-known one."""
    name = forest.name_of(call.func)
    if name is None:
        return bool(forest.definitions.called(call, forest.values))
    return (
        name == "torch.nn.Sequential"
        or name.startswith(("torchvision.models.", "timm.create_model"))
        or (_OWN_FILES.match(name) is not None)
    )


def may_be_compiled(forest: Module, call: cst.Call) -> bool:
    """Whether the network that `call` creates has torch's `.compile()`, and its forward pass can be compiled."""
    if any(forest.definitions.method(item, "compile") for item in forest.definitions.called(call, forest.values)):
        return False
    execution = forest.fact(Execution)
    waiting = list(execution.called_through(forest.fact(ObjectFlow).of(call)))
    seen: set[object] = set()
    while waiting:
        function = waiting.pop()
        if function in seen or not isinstance(function, (cst.FunctionDef, cst.Lambda)):
            continue
        seen.add(function)
        for inner in forest.tree.calls_in(function.body):
            if _is_legacy(forest, inner):
                return False
            waiting += execution.run_by(inner)
    return True


def _is_legacy(forest: Module, call: cst.Call) -> bool:
    """`torch.FloatTensor(array)`, or a name for several such types; not of a list or of sizes."""
    if len(call.args) != 1 or call.args[0].star or isinstance(call.args[0].value, (cst.List, cst.Tuple, cst.Integer)):
        return False
    named: list[cst.CSTNode] = [call.func]
    if isinstance(call.func, cst.Name):
        values = [item.value for item in forest.names.bindings(call.func) if item.kind is BindingKind.ASSIGN]
        named += [node for value in values if value is not None for node in forest.tree.nodes_in(value)]
    return any(_LEGACY.fullmatch(forest.name_of(node) or "") for node in named)


def _is_short(forest: Forest, loop: cst.CSTNode) -> bool:
    """Whether a loop runs only a few steps: `for step in range(10)`."""
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call) or len(loop.iter.args) != 1:
        return False
    steps = forest.value(loop.iter.args[0].value).constant
    return isinstance(steps, int) and steps < 100


def _is_kept(forest: Forest, item: cst.Arg, step: TrainingLoop) -> bool:
    """Whether an argument is a tensor created before the loop."""
    if item.star or not isinstance(item.value, cst.Name):
        return False
    value = forest.value(item.value)
    bound = forest.names.bindings(item.value)
    outside = all(not forest.tree.within(binding.node, step.loop) for binding in bound)
    return bool(bound) and outside and value.kind in (Kind.TENSOR, Kind.UNKNOWN)
