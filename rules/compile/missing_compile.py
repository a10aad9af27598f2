from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


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
    Unsafe: the first steps take seconds to minutes longer, and results may round differently. Most code that cannot be
    compiled falls back to eager, but some raises an error. No fix is offered where the forward calls a constructor such
    as `torch.FloatTensor(array)`, which raises, or where the network has a method `compile` of its own. A last batch
    that is smaller compiles one more version.

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
        from torchlint.model.training.steps import Steps

        from ._uncompiled import fixed_shape, is_shown, speaks_against, uses_gpu

        if not uses_gpu(module) or module.fact(Devices).uses_trainer or speaks_against(module):
            return
        seen: set[cst.CSTNode] = set()
        for step in module.fact(Steps).loops:
            why = fixed_shape(module, step)
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
                    label="runs operator by operator",
                    notes=(Note.at(module, step.loop, "trained in the loop"), why),
                    fix=None
                    if edited is None
                    else Fix("compile it", edited, Applicability.UNSAFE, "the first steps take longer; other rounding"),
                )


def _compile(module: Module, call: cst.Call) -> edits.Edits | None:
    """Compile the network in place, after the statement that makes it."""
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
