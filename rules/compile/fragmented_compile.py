from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.edits import Edits
from torchlint.rule import Applicability, Default, Diagnostic, Edit, Fix, Rule

from ._words import COMPILES

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._sites import Compile


class FragmentedCompile(Rule):
    """Single layers of a model are compiled separately, and the model is not compiled.

    ## What it does
    Flags `torch.compile` on single layers of `torch.nn`, such as a `Linear`, a `Conv2d`, a norm or an activation. At
    least eight of them must be compiled separately, or a loop over `model.modules()` must compile every layer of a
    class. The option `layers` sets that number. If the model is compiled as well, TL501 reports it instead.

    Blocks of several layers are not flagged: compiling each block of a deep model is the documented way to reduce
    start-up time.

    ## Why it is slow
    A single layer consists of one or two operators, so there is nothing to fuse. But each call of a compiled layer
    checks its guards and launches the compiled code. For small layers that costs more than the layer itself. The
    versions for all layers of a class also count together: of layers that differ in size, the ninth runs eagerly
    (`torch._dynamo.config.recompile_limit`).

    ## Example
    ```python
    model = nn.Sequential(*[torch.compile(nn.Linear(64, 64)) for _ in range(32)])
    ```

    ## Use instead
    ```python
    model = torch.compile(nn.Sequential(*[nn.Linear(64, 64) for _ in range(32)]))
    ```

    ## Fix safety
    Unsafe: the keys of `state_dict()` lose the `_orig_mod.` of each layer; those of an `nn.Sequential` begin with it
    instead. The first call compiles for longer, and results may round differently. A compiled `nn.Sequential` can be
    neither iterated over nor indexed. No fix is offered if code that torchlint sees does so, but code in another file
    may. The fix is offered for layers in an `nn.Sequential`, and for a loop over `model.modules()` that only compiles.

    ## When to ignore
    Ignore it if each layer is large, or must be compiled separately: between hooks of FSDP, with offloading, or between
    code that causes graph breaks.

    ## References
    - [Regional compilation](https://docs.pytorch.org/tutorials/recipes/regional_compilation.html)
    - [Where to apply torch.compile](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.where_to_apply_compile.html)
    """

    code = "TL509"
    name = "fragmented-compile"
    default = Default.OPT_IN
    words = ("compile", COMPILES)
    project_words = ("torch", ("nn", "modules()", "children()"))
    since = (2, 0)
    demo = ("GPU", "CPU")
    options = {"layers": 8}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._fragments import fragments
        from ._redundant import Redundant
        from ._sites import CompileSites

        least = module.option(self.name, "layers")
        covered = {inner for inner, _ in module.fact(Redundant).pairs(module.fact(CompileSites).for_speed)}
        for site, count in fragments(module, least if isinstance(least, int) else 8):
            if site in covered:
                continue
            edited = _as_one(module, site)
            yield self.diagnostic(
                module,
                site.node,
                f"{count} compiled separately, and the model that runs them is not compiled",
                label="a single layer has nothing to fuse",
                fix=None
                if edited is None
                else Fix(
                    "compile the model instead",
                    edited,
                    Applicability.UNSAFE,
                    "changes the keys of `state_dict()`; the first call takes longer",
                ),
            )


def _as_one(module: Module, site: Compile) -> Edits | None:
    import libcst as cst

    from ._fragments import chosen_in_walk, is_unpacked

    loop = chosen_in_walk(module, site)
    if loop is not None:
        return _instead_of_loop(module, site, loop)
    if site.in_place or site.call is not site.node or isinstance(site.target, cst.FunctionDef):
        return None
    comprehension: cst.CSTNode | None = None
    for above in module.tree.ancestors(site.node):
        if isinstance(above, (cst.ListComp, cst.GeneratorExp)) and above.elt is site.node:
            comprehension = above
        elif isinstance(above, cst.Call) and comprehension is not None:
            if module.name_of(above.func) != "torch.nn.Sequential" or above.args[0].value is not comprehension:
                return None
            start, end = module.span(above)
            options = "".join(f", {module.code(item)}" for item in site.options)
            inner = edits.unwrap(module, site.node, site.target)
            if inner is None or len(above.args) != 1 or is_unpacked(module, above):
                return None
            compile_call = edits.unbracketed(module.code(site.call.func))
            return (Edit(start, start, f"{compile_call}("), *inner, Edit(end, end, f"{options})"))
        elif not isinstance(above, cst.Arg):
            return None
    return None


def _instead_of_loop(module: Module, site: Compile, loop: cst.For) -> Edits | None:
    """`model.compile()` for a loop that does nothing but compile layers."""
    import libcst as cst

    assert isinstance(loop.iter, cst.Call) and isinstance(loop.iter.func, cst.Attribute)
    statements = [node for node in module.tree.nodes_in(loop.body) if isinstance(node, cst.BaseSmallStatement)]
    if len(statements) != 1 or loop.orelse is not None or any(item.star for item in site.options):
        return None
    if not _only_compiles(module, site, statements[0], loop.iter.func.value):
        return None
    start, end = module.span(loop)[0], edits.statement_end(module, loop)
    if "#" in module.text[start:end]:
        return None
    options = ", ".join(module.code(item) for item in site.options)
    model = edits.unbracketed(module.code(loop.iter.func.value))
    return (Edit(start, end, f"{model}.compile({options})"),)


def _only_compiles(module: Module, site: Compile, statement: cst.CSTNode, model: cst.BaseExpression) -> bool:
    """Whether a statement compiles a layer in place, or puts the compiled layer into `model`, and nothing else."""
    import libcst as cst

    if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is site.node:
        target = statement.targets[0].target
        return isinstance(target, (cst.Attribute, cst.Subscript)) and any(
            module.code(node) == module.code(model) for node in module.tree.nodes_in(target.value)
        )
    call = statement.value if isinstance(statement, cst.Expr) else None
    if call is site.node:
        return site.in_place
    return (
        isinstance(call, cst.Call)
        and module.name_of(call.func) == "builtins.setattr"
        and len(call.args) == 3
        and call.args[2].value is site.node
    )
