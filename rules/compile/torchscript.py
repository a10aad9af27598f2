from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Default, Diagnostic, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: The successor of each.
_SUCCESSORS = {
    "torch.jit.script": "torch.compile",
    "torch.jit.script_method": "torch.compile",
    "torch.jit.trace": "torch.compile",
    "torch.jit.trace_module": "torch.compile",
    "torch.jit.freeze": "torch.compile",
    "torch.jit.optimize_for_inference": "torch.compile",
}


class Torchscript(Rule):
    """TorchScript is deprecated; `torch.compile` and `torch.export` replace it.

    ## What it does
    Flags calls and decorators of `torch.jit.script`, `script_method`, `trace`, `trace_module`, `freeze` and
    `optimize_for_inference`. If the result is saved, the message names `torch.export` as the successor.

    Code for older versions of torch is not flagged. Neither are tests, and code that also has a branch with
    `torch.compile`. `torch.jit.load` is not flagged, because saved models must remain readable.

    ## Why it is slow
    It may not be slow: the rule recommends the successor and claims no speed-up. In torch 2.13 each of these calls
    emits a `DeprecationWarning`. New compiler features are added to `torch.compile`, which also supports more of
    Python.

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
    To run a model without Python or from a file, use `torch.export.export(model, args)` and `torch.export.save`.

    ## Fix safety
    Advice only: the successors accept other code and other arguments, compile later, and are deployed differently.

    ## When to ignore
    Ignore it if the program that loads the model reads only TorchScript, such as an existing C++ or mobile runtime.

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
        from torchlint.model.program.version_checks import VersionChecks

        for node, name in _uses(module):
            if module.fact(VersionChecks).for_other_versions(node) or _is_one_of_two(module, node):
                continue
            successor = "torch.export" if _is_saved(module, node) else _SUCCESSORS[name]
            yield self.diagnostic(
                module,
                node,
                f"`{name}` is deprecated",
                label=f"replaced by `{successor}`",
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
    """Whether the file saves the result of ``node``."""
    import libcst as cst

    saved = [call.node.args[0].value for call in module.calls("torch.jit.save") if call.node.args]
    saved += [call.receiver for call in module.methods("save")]
    statement = module.tree.statement_of(node)
    for value in saved:
        if value is node:
            return True
        if isinstance(value, cst.Name) and any(item.node is statement for item in module.names.bindings(value)):
            return True
    return False
