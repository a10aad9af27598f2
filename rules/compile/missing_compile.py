from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


class MissingCompile(Rule):
    """A network that is trained on inputs of one shape is never compiled.

    ## What it does
    Flags the code that creates a network, if nothing in the file compiles anything. A training loop on CUDA must run
    the network on inputs of one shape. The shape counts as fixed if a transform or dataset fixes it, or if the data
    come from a `TensorDataset`. It also counts as fixed if the inputs are the same tensors at every step.

    Not flagged are files that train on several GPUs or use a trainer, recurrent or graph networks, hooks, second
    derivatives or data of varying size. Tiny networks are not flagged either.

    ## Why it is slow
    In eager mode, every operator is launched separately and writes its result to memory, where the next operator reads
    it. A compiled network runs chains of elementwise operators, norms and activations as one kernel, forward and
    backward. It helps if such operators, or the launches of many small ones, take a large part of the time. A network
    of large matrix products and convolutions gains less.

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
    With `model.compile()`, the module keeps its attributes and the keys of its `state_dict()`.

    ## Fix safety
    Unsafe: the first steps take seconds to minutes longer, and results may round differently. Most code that cannot be
    compiled falls back to eager, but some raises an error. A smaller last batch compiles one more version. No fix is
    offered if the forward pass calls a constructor such as `torch.FloatTensor(array)`, which raises an error, or if the
    network has its own `compile` method.

    ## When to ignore
    Ignore it if training takes less than a few minutes, or if the model changes during training.

    ## Reported elsewhere
    - 43 % faster training on average of 163 models; 21 % in float32, 51 % with autocast (NVIDIA A100, 2022):
      [the announcement of PyTorch 2.0](https://pytorch.org/get-started/pytorch-2-x/)

    ## References
    - [torch.nn.Module.compile](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile)
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    """

    code = "TL510"
    name = "missing-compile"
    default = Default.OPT_IN
    words = (".backward(",)
    project_words = ("torch", ("cuda", "accelerator"))
    since = (2, 2)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.numerics.sizes import Sizes
        from torchlint.model.tensors.devices import Devices
        from torchlint.model.training.constructors import Constructors
        from torchlint.model.training.steps import Steps

        from ._uncompiled import SameInputs, fixed_shape, is_shown, is_unsuitable, uses_gpu

        if not uses_gpu(module) or module.fact(Devices).uses_trainer or is_unsuitable(module):
            return
        seen: set[cst.CSTNode] = set()
        everywhere = fixed_shape(module)
        for step in module.fact(Steps).loops:
            why = everywhere or module.fact(SameInputs).note(step)
            if why is None:
                continue
            for network in module.fact(Steps).networks(step):
                made = module.fact(Constructors).of(network)
                if made is None or len(made) != 1 or module.fact(Sizes).is_tiny(network):
                    continue
                call = next(iter(made))
                if call in seen or not is_shown(module, call):
                    continue
                seen.add(call)
                edited = _compile(module, call)
                yield self.diagnostic(
                    module,
                    call,
                    "network trained on inputs of one shape is never compiled",
                    label="runs eagerly, operator by operator",
                    notes=(Note.at(module, step.loop, "it is trained in the loop"), why),
                    fix=None
                    if edited is None
                    else Fix(
                        f"add `{edited[0].content.strip()}`",
                        edited,
                        Applicability.UNSAFE,
                        "the first steps take longer; results may round differently",
                    ),
                )


def _compile(module: Module, call: cst.Call) -> edits.Edits | None:
    """Compile the network in place, after the statement that creates it."""
    import libcst as cst

    from ._uncompiled import may_be_compiled

    statement = module.tree.statement_of(call)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    value = statement.value
    while isinstance(value, cst.Call) and value is not call and isinstance(value.func, cst.Attribute):
        if value.func.attr.value not in ("to", "cuda", "train", "float"):
            return None
        value = value.func.value
    if value is not call or not isinstance(target, (cst.Name, cst.Attribute)) or not may_be_compiled(module, call):
        return None
    return edits.insert_after(module, statement, f"{module.code(target)}.compile()")
