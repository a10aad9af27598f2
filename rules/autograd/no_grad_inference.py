from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule, Severity

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


class NoGradInference(Rule):
    """Inference under `no_grad` where `inference_mode` serves.

    ## What it does
    Flags `torch.no_grad()` around forward calls whose outputs end in numbers, arrays, prints or files: none is
    returned, kept on an object or used for training. Regions with autocast in them are left alone. A forward that runs
    once is reported at information level.

    ## Why it is slow
    `no_grad` still counts the versions of every tensor and tracks views, so that a graph could be recorded later.
    `inference_mode` leaves that out too. The gain is small, and shows only where many small
    operations run.

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
    Unsafe: a tensor made under `inference_mode` can never take part in autograd again, and changing it in place is an
    error outside `inference_mode`. A network that caches tensors during its forward raises an error when it is trained
    afterwards. No fix is offered where a tensor of the block is changed in place outside it, where the block contains
    a `yield` or `await`, and in a program with lazy layers.

    ## When to ignore
    When outputs, or what the network caches, are used for training later, and under autocast: there `inference_mode`
    switches the cache of cast weights off. With `torch.compile` it makes one more compiled version.

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

        for manager, forward, body in module.fact(NoGrad).inference_mode_serves:
            obstacle = module.fact(InferenceTensors).obstacle(manager, body)
            yield self.diagnostic(
                module,
                manager,
                "`torch.no_grad()` can be `torch.inference_mode()`",
                label="tracks views and versions for a graph that is never recorded",
                notes=(
                    Note.at(module, forward, "the outputs are only read: forward pass"),
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
            f"use `{name}()`",
            (*imported, *changed),
            Applicability.UNSAFE,
            "its tensors can never take part in autograd again",
        )


def _named(module: Module, function: cst.CSTNode) -> tuple[str, edits.Edits] | None:
    """`inference_mode` as an attribute of torch, under the name that the file has for it, and the edits for that."""
    named = edits.name_module(module, "torch", function)
    return None if named is None else (f"{named[0]}.inference_mode", named[1])


def _renamed(module: Module, function: cst.CSTNode) -> tuple[str, edits.Edits] | None:
    """`inference_mode` imported in the place of `no_grad`, which nothing else uses; None if that cannot be."""
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
