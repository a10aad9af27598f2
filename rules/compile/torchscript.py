from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Default, Diagnostic, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: What each is for, and so what comes after it.
_SUCCESSORS = {
    "torch.jit.script": "torch.compile",
    "torch.jit.script_method": "torch.compile",
    "torch.jit.trace": "torch.compile",
    "torch.jit.trace_module": "torch.compile",
    "torch.jit.freeze": "torch.compile",
    "torch.jit.optimize_for_inference": "torch.compile",
}


class Torchscript(Rule):
    """Code is compiled by TorchScript, which is deprecated: `torch.compile` and `torch.export` come after it.

    ## What it does
    Flags calls and decorators of `torch.jit.script`, `script_method`, `trace`, `trace_module`, `freeze` and
    `optimize_for_inference`. Where what they give is saved, `torch.export` is named as the successor.

    Code that is there for older versions of torch is left alone, and so are tests and code that also offers
    `torch.compile` in another branch. `torch.jit.load` is not flagged: models that were saved must be read.

    ## Why it is slow
    It need not be: the rule asks to move on, and claims no speed. In torch 2.13 each of these calls raises a
    `DeprecationWarning`. What is new in the compiler goes into `torch.compile`, which also takes in more of Python.

    ## Example
    ```python
    @torch.jit.script
    def gelu(x):
        return x * 0.5 * (1.0 + torch.erf(x / 1.41421))
    ```

    ## Use instead
    ```python
    @torch.compile
    def gelu(x):
        return x * 0.5 * (1.0 + torch.erf(x / 1.41421))
    ```
    To run a model without Python or from a file: `torch.export.export(model, args)` and `torch.export.save`.

    ## Fix safety
    Advice: the successors take other code and other arguments, compile later, and are deployed in another way.

    ## When to ignore
    When the program that loads the model reads nothing but TorchScript: a C++ or mobile runtime that is there already.

    ## References
    - [torch.jit](https://docs.pytorch.org/docs/stable/jit.html)
    - [torch.export](https://docs.pytorch.org/docs/stable/export.html)
    """

    code = "TL512"
    name = "torchscript"
    default = Default.OPT_IN
    words = (
        "jit",
        ("jit.script", "jit.trace", "jit.freeze", "jit.optimize_for", "torch.jit import", "as jit"),
    )
    since = (2, 0)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.semantics.gates import Gates

        for node, name in _uses(module):
            if module.fact(Gates).for_other_versions(node) or _is_one_of_two(module, node):
                continue
            successor = "torch.export" if _is_saved(module, node) else _SUCCESSORS[name]
            yield self.diagnostic(
                module,
                node,
                f"`{name}` is deprecated",
                label=f"`{successor}` comes after it",
                cause=Cause((name, successor), "also used"),
            )


def _uses(module: Module) -> Iterator[tuple[cst.Call | cst.Decorator, str]]:
    yield from ((call.node, call.name) for call in module.own_calls(*_SUCCESSORS))
    yield from module.decorators(*_SUCCESSORS)


def _is_one_of_two(module: Module, node: cst.CSTNode) -> bool:
    """Whether another branch compiles."""
    from ._sites import CompileSites

    return any(module.tree.exclusive(node, site.node) for site in module.fact(CompileSites).all)


def _is_saved(module: Module, node: cst.CSTNode) -> bool:
    """Whether the file saves what ``node`` gives."""
    import libcst as cst

    saved = [call.node.args[0].value for call in module.calls("torch.jit.save") if call.node.args]
    saved += [call.func.value for call in module.methods("save") if isinstance(call.func, cst.Attribute)]
    statement = module.tree.statement_of(node)
    for value in saved:
        if value is node:
            return True
        if isinstance(value, cst.Name) and any(item.node is statement for item in module.names.bindings(value)):
            return True
    return False
