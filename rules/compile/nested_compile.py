from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.edits import Edits
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Rule

from ._words import COMPILES

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._sites import Compile

#: Settings of the generated code; the outer compile ignores those of the inner one.
_SETTINGS = ("mode", "options", "backend")


class NestedCompile(Rule):
    """`torch.compile` is applied to code that an outer `torch.compile` already includes.

    ## What it does
    Flags `torch.compile(...)`, `@torch.compile` or `module.compile()` if its result runs, in this file, only inside
    code that another `torch.compile` compiles. Examples are a layer of a compiled module, a function that compiled
    functions call, and an object that is compiled twice.

    Layers that are compiled separately in a module that is not compiled (regional compilation) are not flagged. Neither
    is anything that may also run on its own.

    ## Why it is slow
    The outer compile includes the inner code and ignores the `mode=`, `options=` and `backend=` of the inner one. If
    `mode="reduce-overhead"` is passed for a layer of a compiled model, the model runs without CUDA graphs.
    `module.compile()` is an exception: it keeps its settings, and a `torch.compile` around the same module is ignored.
    Of two `compile()` calls, the last one takes precedence.

    ## Example
    ```python
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.compile(Blocks(), mode="reduce-overhead")


    model = torch.compile(Network())
    ```

    ## Use instead
    ```python
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = Blocks()


    model = torch.compile(Network(), mode="reduce-overhead")
    ```
    Compile once, at the level of the model.

    ## Fix safety
    Unsafe: the keys of `state_dict()` lose the `_orig_mod.` of the inner wrapper. Code in another file that runs the
    inner object on its own runs it uncompiled. The settings of the inner compile move to the outer one if that has
    none, which changes how the whole model is compiled. An `if` or `for` that contains only the inner compile is
    deleted with it. No fix is offered if `**kwargs` hides settings.

    ## When to ignore
    Ignore it if another file uses the inner object on its own.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [Where to apply torch.compile](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.where_to_apply_compile.html)
    """

    code = "TL501"
    name = "nested-compile"
    words = ("compile", COMPILES)
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._redundant import Redundant
        from ._sites import CompileSites

        sites = [site for site in module.fact(CompileSites).for_speed if module.is_own(site.node)]
        for inner, outer in module.fact(Redundant).pairs(sites):
            lost = [f"`{_code(module, item)}`" for item in inner.options if _name(item) in _SETTINGS]
            changes = _change(module, inner, outer)
            yield self.diagnostic(
                module,
                inner.node,
                "`torch.compile` on code that an outer `torch.compile` already includes",
                label=f"{' and '.join(lost)} has no effect" if lost else "compiled twice",
                notes=(Note.at(module, outer.node, "every use in this file is inside the outer `torch.compile`"),),
                fix=Fix(
                    "remove the inner `torch.compile`",
                    changes,
                    Applicability.UNSAFE,
                    "changes the keys of `state_dict()`; code in other files may run it uncompiled",
                )
                if changes
                else None,
            )


def _change(module: Module, inner: Compile, outer: Compile) -> Edits | None:
    if any(item.star for item in (*inner.options, *outer.options)):
        return None
    dropped = _drop(module, inner)
    moved: Edits | None = ()
    if not any(outer.option(name) for name in _SETTINGS):
        moved = _give(module, outer, [item for item in inner.options if _name(item) in _SETTINGS])
    return None if dropped is None or moved is None else dropped + moved


def _drop(module: Module, inner: Compile) -> Edits | None:
    """Remove the inner compile, and keep what it compiles."""
    import libcst as cst

    if isinstance(inner.node, cst.Decorator):
        return edits.remove_decorator(module, inner.node)
    if inner.in_place:
        alone = edits.statement_of_call(module, inner.node)
        return edits.delete_with_block(module, alone) if alone is not None else None
    statement = module.tree.statement_of(inner.node)
    assert isinstance(inner.target, cst.BaseExpression)
    if isinstance(statement, cst.Assign) and statement.value is inner.node and len(statement.targets) == 1:
        if module.code(statement.targets[0].target) == module.code(inner.target):
            return edits.delete_with_block(module, statement)
    return edits.unwrap(module, inner.node, inner.target)


def _give(module: Module, outer: Compile, settings: list[cst.Arg]) -> Edits | None:
    """Pass the settings to the outer compile; None if a value may differ there."""
    import libcst as cst

    if not settings:
        return ()
    for item in settings:
        if any(
            isinstance(node, cst.Name) and node.value not in ("True", "False") for node in module.tree.nodes_in(item)
        ):
            return None
    text = ", ".join(_code(module, item) for item in settings)
    if outer.call is None:
        assert isinstance(outer.node, cst.Decorator)
        end = module.span(outer.node.decorator)[1]
        return (Edit(end, end, f"({text})"),)
    name, _, value = text.partition("=")
    return edits.add_keyword(module, outer.call, name, value)


def _name(item: cst.Arg) -> str:
    return item.keyword.value if item.keyword is not None else ""


def _code(module: Module, item: cst.Arg) -> str:
    return f"{_name(item)}={module.code(item.value)}"
