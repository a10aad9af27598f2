from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._kinds import StateKind
from ._words import COMPILES, COMPUTES

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._mutations import Mutation

_CHANGES = {StateKind.NUMBER: "increments", StateKind.LIST: "appends to", StateKind.DICT: "increments a value of"}


class PythonStateInCompiled(Rule):
    """Compiled code changes Python state that it depends on, and recompiles at every call.

    ## What it does
    Flags, in functions that run compiled and in functions that these call:

    - an integer attribute of a module that is incremented (`self.step += 1`);
    - a global number that is incremented;
    - a list of a module, or a global list, that grows;
    - a counter in a dict of a module or in a global dict.

    Not flagged are tensors and buffers, floats, attributes of objects that are not modules, and lists that are emptied
    elsewhere. These do not recompile at every call.

    ## Why it is slow
    The compiler treats integers of modules, global numbers and the lengths of lists as constants, and checks them
    before each call. If one has changed, the function is recompiled, even if the value is never used. After eight
    versions (`torch._dynamo.config.recompile_limit`) the function falls back to eager; with `fullgraph=True` it raises
    an error.

    ## Example
    ```python
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        @torch.compile
        def forward(self, x):
            self.steps += 1
            return x * 2
    ```

    ## Use instead
    ```python
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor(0), persistent=False)
    ```
    A buffer is incremented in the graph itself. Alternatively, count outside of the compiled code.

    ## Fix safety
    Unsafe: the number becomes a buffer of the module that is not saved. It is then a tensor on the device of the
    module, and printing or comparing it waits for the GPU. The fix is offered for integers of modules that are set
    after `super().__init__()` and that the compiled code only increments. Move lists, dicts and global numbers
    manually.

    ## When to ignore
    Ignore it if the function is called fewer than eight times.

    ## References
    - [Dealing with recompilations](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html)
    """

    code = "TL505"
    name = "python-state-in-compiled"
    words = (COMPUTES,)
    project_words = ("torch", "compile", COMPILES)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._mutations import Mutations

        for found in module.fact(Mutations).all():
            edited = _to_buffer(module, found)
            yield self.diagnostic(
                module,
                found.node,
                f"compiled code {_CHANGES[found.kind]} `{found.name}` and recompiles at every call",
                label="falls back to eager after eight recompiles",
                notes=(
                    Note.at(module, found.traced.site.node, "the code is compiled"),
                    Note.at(module, found.made.node, f"`{found.name}` is defined"),
                ),
                fix=None
                if edited is None
                else Fix(
                    f"register `{found.name}` as a buffer",
                    edited,
                    Applicability.UNSAFE,
                    "makes it a tensor on the device of the module, which is not saved",
                ),
            )


def _to_buffer(module: Module, found: Mutation) -> edits.Edits | None:
    """Register the number as a buffer where it is created, if the compiled code only increments it."""
    import libcst as cst

    from ._traced import TracedCode

    made = found.made.node
    if found.kind is not StateKind.NUMBER or not isinstance(made, cst.Assign) or len(made.targets) != 1:
        return None
    target = made.targets[0].target
    if not isinstance(target, cst.Attribute) or not _has_torch(module):
        return None
    owner, name = module.code(target.value), found.made.name
    if not _may_register(module, made, name):
        return None
    if any(statement is not made and not isinstance(statement, cst.AugAssign) for statement in _stores(module, name)):
        return None
    counted = {stored for stored, _, _ in module.tree.stores}
    for node in module.tree.attributes:
        if node.attr.value == name and node not in counted:
            if module.function_of(node) in module.fact(TracedCode).functions:
                return None
    value = module.code(made.value)
    return edits.replace(module, made, f'{owner}.register_buffer("{name}", torch.tensor({value}), persistent=False)')


def _may_register(module: Module, made: cst.Assign, name: str) -> bool:
    """Whether a buffer can be registered at `made`: the module is initialized, and its class lacks the attribute."""
    import libcst as cst

    function = module.function_of(made)
    owner = module.tree.class_of(function) if function is not None else None
    if function is None or owner is None:
        return False
    if any(name in module.tree.scopes[definition].bindings for definition in module.definitions.lineage(owner)):
        return False
    return any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "__init__"
        and module.tree.dominates(call, made)
        for call in module.tree.calls_in(function.body)
    )


def _has_torch(module: Module) -> bool:
    """Whether `torch` is imported under that name."""
    bound = module.scope.bindings.get("torch", [])
    return bool(bound) and all(item.kind is BindingKind.IMPORT and item.imported == "torch" for item in bound)


def _stores(module: Module, name: str) -> list[cst.CSTNode]:
    import libcst as cst

    return [
        statement
        for target, _, statement in module.tree.stores
        if isinstance(target, cst.Attribute) and target.attr.value == name
    ]
