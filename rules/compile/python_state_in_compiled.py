from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._kinds import StateKind
from ._words import COMPILES

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._mutations import Mutation

_CHANGES = {StateKind.NUMBER: "counts", StateKind.LIST: "adds to", StateKind.DICT: "counts in"}


class PythonStateInCompiled(Rule):
    """Compiled code changes Python state that it was compiled for, so it is compiled again at every call.

    ## What it does
    Flags, in functions that run compiled and in what these call: a whole number of a module that is counted up
    (`self.step += 1`), a global number that is counted up, a list of a module or a global list that grows, and a
    counter in a dict of either.

    Tensors and buffers are left alone, and so are floats, the attributes of objects that are no modules, and lists
    that are emptied elsewhere: those do not compile again each time.

    ## Why it is slow
    The compiler takes whole numbers of modules, global numbers and the length of lists as fixed, and checks them
    before each call. When one has changed, the function is compiled again, even if the value is never used. After
    eight versions (`torch._dynamo.config.recompile_limit`) it gives up, and the function runs eagerly from then on;
    with `fullgraph=True` it raises.

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
    A buffer is counted on in the graph itself. Or count outside of the compiled code.

    ## Fix safety
    Unsafe: the number of a module becomes a buffer that is not saved. It is then a tensor on the device of the module:
    to print or to compare it waits for the GPU. Offered for numbers of modules that the compiled code only counts, set
    behind `super().__init__()`. Lists, dicts and global numbers are for you to move.

    ## When to ignore
    When the function is called fewer than eight times.

    ## References
    - [Dealing with recompilations](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html)
    """

    code = "TL505"
    name = "python-state-in-compiled"
    words = ("torch", "compile", COMPILES)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._mutations import Mutations

        for found in module.fact(Mutations).all():
            edited = _to_buffer(module, found)
            yield self.diagnostic(
                module,
                found.node,
                f"compiled code {_CHANGES[found.kind]} `{found.name}`, which recompiles it at every call",
                label="falls back to eager after eight recompiles",
                notes=(
                    Note.at(module, found.traced.site.node, "compiled"),
                    Note.at(module, found.made.node, f"`{found.name}` is defined"),
                ),
                fix=None
                if edited is None
                else Fix(
                    f"make `{found.name}` a buffer",
                    edited,
                    Applicability.UNSAFE,
                    "it is then a tensor, on the device of the module, and not saved",
                ),
            )


def _to_buffer(module: Module, found: Mutation) -> edits.Edits | None:
    """Register the number as a buffer where it is made, if the compiled code does nothing but count it."""
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
    """Whether a buffer can be registered at `made`: the module is initialized, and its class has no such attribute."""
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
    return bool(bound) and all(item.kind == "import" and item.imported == "torch" for item in bound)


def _stores(module: Module, name: str) -> list[cst.CSTNode]:
    import libcst as cst

    return [
        statement
        for target, _, statement in module.tree.stores
        if isinstance(target, cst.Attribute) and target.attr.value == name
    ]
