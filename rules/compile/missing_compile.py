from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.training.steps import TrainingLoop

#: Data sets whose items all have one shape.
_EQUAL = tuple(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "USPS", "CIFAR10", "CIFAR100", "SVHN", "STL10")
)
#: What says that the file compiles in some way, runs on several GPUs, feeds what varies in size, or needs eager code.
_SPEAKS_AGAINST = re.compile(
    r"compile|^jit$|torchscript|dynamo|cuda_?graph|(^|_)(ddp|fsdp|deepspeed|apex|xla|tpu)(_|$)|data_?parallel|"
    r"init_process_group|collate|pad_sequence|tokeni[sz]er|packed|(^|_)(lstm|gru|rnn)|hook|checkpoint_sequential|"
    r"create_graph|retain_graph|sparse|adj(acency)?$|edge_index|meta_|maml|spectral_norm|weight_norm|prun",
    re.IGNORECASE,
)
#: How the files of a project that define networks tend to be called.
_OWN_FILES = re.compile(r"\.|(models?|modules?|networks?|nets?|architectures?|\w*(net|unet|vae|gan|vit))(\.|$)")
_LIBRARIES = ("torch_geometric", "dgl", "transformers", "higher", "learn2learn", "horovod", "torch_xla", "timm.data")


class MissingCompile(Rule):
    """A network that is trained on tensors of one shape is never compiled.

    ## What it does
    Flags the place that makes a network, where a training loop on CUDA runs it again and again on inputs of one shape,
    and nothing in the file compiles anything. That the shape is one is taken from a transform or data set that fixes
    it, from a `TensorDataset`, or from inputs that are the same tensors at every step.

    Files that train on several GPUs, use a trainer, recurrent or graph networks, hooks, second derivatives or data of
    varying size are left alone, and so are networks that are tiny.

    ## Why it is slow
    Run eagerly, every operator is launched by itself and writes its result to memory, where the next one reads it
    again. A compiled network runs chains of elementwise operators, norms and activations as one kernel, forward and
    backward. It pays where such operators, or the launching of many small ones, take a good part of the time. A
    network of large matrix products and convolutions gains less.

    ## Example
    ```python
    model = Network().to("cuda")
    for step in range(steps):
        loss = criterion(model(features), targets)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model = Network().to("cuda")
    model.compile()
    ```
    Compiled in place, the module keeps its attributes and the keys of its `state_dict()`.

    ## Fix safety
    Unsafe: the first steps take seconds to minutes longer, results may round differently, and code that cannot be
    compiled falls back to eager. A last batch that is smaller compiles one more version.

    ## When to ignore
    When training takes less than some minutes, or the model is changed while it trains.

    ## References
    - [torch.nn.Module.compile](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile)
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    """

    code = "TL510"
    name = "missing-compile"
    default = Default.OPT_IN
    words = ("torch", ".backward(", ("cuda", "accelerator"))
    since = (2, 2)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.devices import Devices
        from torchlint.model.numerics.sizes import Sizes
        from torchlint.model.training.constructors import Constructors
        from torchlint.model.training.purpose import Purposes
        from torchlint.model.training.steps import Steps

        if (
            module.fact(Purposes).is_test
            or not _uses_gpu(module)
            or module.fact(Devices).uses_trainer
            or _speaks_against(module)
        ):
            return
        seen: set[cst.CSTNode] = set()
        for step in module.fact(Steps).loops:
            why = _fixed_shape(module, step)
            if why is None:
                continue
            for network in module.fact(Steps).networks(step):
                made = module.fact(Constructors).of(network)
                if made is None or len(made) != 1 or module.fact(Sizes).is_tiny(network):
                    continue
                call = next(iter(made))
                if call in seen or not _is_shown(module, call):
                    continue
                seen.add(call)
                edited = _compile(module, call)
                yield self.diagnostic(
                    module,
                    call,
                    "network trained on inputs of one shape is never compiled",
                    label="runs operator by operator",
                    notes=(Note.at(module, step.loop, "trained in the loop"), why),
                    fix=None
                    if edited is None
                    else Fix("compile it", edited, Applicability.UNSAFE, "the first steps take longer; other rounding"),
                )


def _uses_gpu(module: Module) -> bool:
    from torchlint.model.data.devices import Devices

    return module.fact(Devices).uses_cuda or any(module.calls("torch.accelerator.current_accelerator"))


def _speaks_against(module: Module) -> bool:
    from torchlint.model.numerics.convolutions import Convolutions
    from torchlint.model.numerics.precision import Precision

    from ._sites import CompileSites

    if module.fact(CompileSites).all or any(module.imports(name) for name in _LIBRARIES):
        return True
    if (
        module.fact(Precision).plays_games
        or module.fact(Precision).differentiates_twice
        or module.fact(Convolutions).varies
    ):
        return True
    tree = module.tree
    words = {*tree.names, *(node.attr.value for node in tree.attributes), *module.imported_names}
    words |= {item.keyword.value for call in tree.calls for item in call.args if item.keyword is not None}
    return any(_SPEAKS_AGAINST.search(part) for word in words for part in word.split("."))


def _fixed_shape(module: Module, step: TrainingLoop) -> Note | None:
    """What shows that the network gets inputs of one shape at every step; None if nothing does."""
    from torchlint.model.numerics.convolutions import Convolutions

    shown = module.fact(Convolutions).one_size
    if shown is not None:
        return Note.at(module, shown, "all images have one size")
    for call in (*module.calls(*_EQUAL), *module.calls("torch.utils.data.TensorDataset")):
        return Note.at(module, call.node, "all items have one shape")
    given = step.forward.args
    if step.body is step.loop and given and not _is_short(module, step.loop):
        if all(_is_kept(module, item, step) for item in given):
            return Note("the inputs are the same tensors at every step")
    return None


def _is_shown(module: Module, call: cst.Call) -> bool:
    """Whether the network is one of the project, of several layers, or a well-known one."""
    name = module.name_of(call.func)
    if name is None:
        return bool(module.definitions.called(call, module.values))
    return (
        name == "torch.nn.Sequential"
        or name.startswith(("torchvision.models.", "timm.create_model"))
        or (_OWN_FILES.match(name) is not None)
    )


def _is_short(module: Module, loop: cst.For | cst.While) -> bool:
    """Whether a loop runs a few steps only: `for step in range(10)`."""
    import libcst as cst

    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call) or len(loop.iter.args) != 1:
        return False
    steps = module.value(loop.iter.args[0].value).constant
    return isinstance(steps, int) and steps < 100


def _is_kept(module: Module, item: cst.Arg, step: TrainingLoop) -> bool:
    """Whether an argument is a tensor made before the loop."""
    import libcst as cst

    if item.star or not isinstance(item.value, cst.Name):
        return False
    value = module.value(item.value)
    bound = module.names.bindings(item.value)
    outside = all(not module.tree.within(binding.node, step.loop) for binding in bound)
    return bool(bound) and outside and value.kind in (Kind.TENSOR, Kind.UNKNOWN)


def _compile(module: Module, call: cst.Call) -> edits.Edits | None:
    """Compile the network in place, after the statement that makes it."""
    import libcst as cst

    statement = module.tree.statement_of(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    value = statement.value
    while isinstance(value, cst.Call) and value is not call and isinstance(value.func, cst.Attribute):
        if value.func.attr.value not in ("to", "cuda", "train", "float"):
            return None
        value = value.func.value
    if value is not call or not isinstance(target, (cst.Name, cst.Attribute)):
        return None
    return edits.insert_after(module, statement, f"{module.code(target)}.compile()")
