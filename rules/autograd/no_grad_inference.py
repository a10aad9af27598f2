from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


class NoGradInference(Rule):
    """`torch.no_grad()` can be `torch.inference_mode()`.

    ## What it does
    Flags `torch.no_grad()` around forward passes whose outputs become numbers, arrays, printed text or files. No output
    may be returned, stored on an object or used for training. Code that contains autocast is not flagged. A forward
    pass that runs once is reported at information level.

    ## Why it is slow
    `no_grad` still tracks views and increments the version counter of every tensor, so that a graph could be recorded
    later. `inference_mode` does neither. The gain is small, and appears only where many small operations run.

    ## Example
    ```python
    with torch.no_grad():
        for images, labels in loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    ```

    ## Use instead
    ```python
    with torch.inference_mode():
        for images, labels in loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    ```

    ## Fix safety
    Unsafe: a tensor created under `inference_mode` can never be used in autograd, and an in-place change of it outside
    of `inference_mode` is an error. A network that caches tensors in its forward pass raises an error when it is
    trained afterwards. No fix is offered

    - if a tensor of the block is changed in place outside of it;
    - if the block contains a `yield` or `await`;
    - if the program has lazy layers.

    ## When to ignore
    - Outputs, or tensors that the network caches, are used for training later.
    - The code runs under autocast, where `inference_mode` disables the cache of cast weights.
    - `torch.compile` is used: `inference_mode` adds one more compiled version.

    ## References
    - [torch.inference_mode](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html)
    - [Inference mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode)
    """

    code = "TL403"
    name = "no-grad-inference"
    default = Default.OPT_IN
    words = ("no_grad",)
    since = (1, 9)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._inference_tensors import InferenceTensors
        from ._no_grad import NoGrad

        for manager, forward, body in module.fact(NoGrad).replaceable:
            obstacle = module.fact(InferenceTensors).obstacle(manager, body)
            yield self.diagnostic(
                module,
                manager,
                "`torch.no_grad()` can be `torch.inference_mode()`",
                label="tracks views and version counters unnecessarily",
                notes=(
                    Note.at(module, forward, "the outputs are only read after the forward pass"),
                    *(() if obstacle is None else (Note.at(module, obstacle[1], obstacle[0]),)),
                ),
                fix=self._fix(module, manager) if obstacle is None else None,
                severity=Severity.INFO if module.fact(Purposes).runs_once(forward) else None,
            )

    def _fix(self, module: Module, manager: cst.CSTNode) -> Fix | None:
        function = module.callee(manager)
        named = _renamed(module, function) or _named(module, function)
        if named is None:
            return None
        name, imported = named
        called = module.code(function) != module.code(manager)
        changed = edits.replace(module, function, name) if called else edits.replace(module, manager, f"{name}()")
        return Fix(
            f"replace it with `{name}()`",
            (*imported, *changed),
            Applicability.UNSAFE,
            "tensors created here can never be used in autograd",
        )


def _named(module: Module, function: cst.CSTNode) -> tuple[str, edits.Edits] | None:
    """`inference_mode` as an attribute of torch, under the name that the file has for it, and the edits for that."""
    named = edits.name_module(module, "torch", function)
    return None if named is None else (f"{named[0]}.inference_mode", named[1])


def _renamed(module: Module, function: cst.CSTNode) -> tuple[str, edits.Edits] | None:
    """`inference_mode` imported instead of `no_grad`, which nothing else uses; None if that is impossible."""
    import libcst as cst

    bindings = module.names.bindings(function) if isinstance(function, cst.Name) else []
    if len(bindings) != 1 or module.names.scope_with("inference_mode", module.tree.scope_of(function)) is not None:
        return None
    binding = bindings[0]
    statement = binding.node
    if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        return None
    if not module.is_own(statement) or module.scope.bindings.get(binding.name) != [binding]:
        return None
    if len(module.names.uses(binding)) != 1 or module.is_taken(binding.name) or module.is_exported(binding):
        return None
    alias = next((item for item in statement.names if item.evaluated_name == binding.name), None)
    if binding.imported != "torch.no_grad" or alias is None or alias.asname is not None:
        return None
    return "inference_mode", edits.replace(module, alias.name, "inference_mode")
