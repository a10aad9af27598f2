from __future__ import annotations

from collections import defaultdict
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

_WALKS = ("modules", "named_modules", "children", "named_children")
#: Classes of torch.nn that hold or do more than one layer's work.
_LARGER = ("Sequential", "Module", "Transformer", "Multihead", "LSTM", "GRU", "RNN", "Parameter")


class FragmentedCompile(Rule):
    """The layers of a model are compiled one by one, and the model that runs them is not.

    ## What it does
    Flags `torch.compile` on single layers of `torch.nn` (a `Linear`, a `Conv2d`, a norm, an activation), where at
    least eight of them are compiled each by itself, or where a loop over `model.modules()` compiles every layer of a
    class. What is compiled from outside as well is left to TL501.

    Blocks of several layers are left alone: compiling each block of a deep model is the documented way to a short
    start-up.

    ## Why it is slow
    A layer by itself holds one operator or two: there is nothing to fuse it with. But each call of a compiled layer
    checks whether its code still fits, and starts it anew. For small layers that costs more than the layer. The
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
    Unsafe: the keys of `state_dict()` lose the `_orig_mod.` of each layer, the first call compiles for longer, and
    results may round differently. Offered for layers in an `nn.Sequential`, and for a loop over `model.modules()`.

    ## When to ignore
    When each layer is large, or must be compiled alone: between hooks of FSDP, offloading, or code that breaks the
    graph.

    ## References
    - [Regional compilation](https://docs.pytorch.org/tutorials/recipes/regional_compilation.html)
    - [Where to apply torch.compile](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.where_to_apply_compile.html)
    """

    code = "TL509"
    name = "fragmented-compile"
    default = Default.OPT_IN
    words = ("torch", COMPILES, ("nn", "modules()", "children()"))
    since = (2, 0)
    demo = ("GPU", "CPU")
    options = {"layers": 8}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._redundant import Redundant

        if module.fact(Purposes).is_test:
            return
        least = module.option(self.name, "layers")
        covered = {inner for inner, _ in module.fact(Redundant).pairs()}
        for site, count in _fragments(module, least if isinstance(least, int) else 8):
            if site in covered:
                continue
            edited = _as_one(module, site)
            yield self.diagnostic(
                module,
                site.node,
                f"{count} compiled one by one, and what runs them is not",
                label="nothing to fuse in a single layer",
                fix=None
                if edited is None
                else Fix(
                    "compile what runs them",
                    edited,
                    Applicability.UNSAFE,
                    "keys of `state_dict()` lose `_orig_mod.`; the first call takes longer",
                ),
            )


# -- what is compiled in pieces


def _fragments(module: Module, least: int) -> Iterator[tuple[Compile, str]]:
    """The places that compile single layers, many times: the place, and how many."""
    from ._sites import CompileSites

    together: dict[cst.CSTNode | None, list[Compile]] = defaultdict(list)
    for site in module.fact(CompileSites).for_speed:
        if _chosen_in_walk(module, site) is not None:
            yield site, "single layers are"
            continue
        name = _layer(module, site)
        if name is None:
            continue
        times = _times(module, site)
        if times >= least:
            yield site, f"{times} layers are"
        elif times == 1:
            function = module.function_of(site.node)
            together[function].append(site)
    for sites in together.values():
        if len(sites) >= least:
            yield sites[0], f"{len(sites)} layers are"


def _layer(module: Module, site: Compile) -> str | None:
    """The class of torch.nn, if a single layer is compiled."""
    import libcst as cst

    if isinstance(site.target, cst.FunctionDef):
        return None
    value = module.value(site.target)
    return value.name if value.sure and _is_layer(value.name) else None


def _is_layer(name: str) -> bool:
    from torchlint.model.syntax.dotted import last_part

    last = last_part(name)
    return name.startswith("torch.nn.") and last[:1].isupper() and not last.startswith(_LARGER)


def _times(module: Module, site: Compile) -> int:
    """How often a place runs each time its function does; 0 if unknown."""
    import libcst as cst

    from torchlint.model.syntax.climbing import climb

    times = 1
    for above, child in climb(module.tree, site.node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(above, cst.For) and child is above.body:
            times *= _length(module, above.iter)
        elif isinstance(above, cst.While):
            return 0
        elif isinstance(above, (cst.ListComp, cst.GeneratorExp)) and child is above.elt:
            times *= 0 if above.for_in.inner_for_in or above.for_in.ifs else _length(module, above.for_in.iter)
    return times


def _length(module: Module, iterable: cst.BaseExpression) -> int:
    import libcst as cst

    if isinstance(iterable, (cst.List, cst.Tuple)):
        return len(iterable.elements)
    if isinstance(iterable, cst.Call) and module.name_of(iterable.func) == "builtins.range" and len(iterable.args) == 1:
        length = module.value(iterable.args[0].value).constant
        return length if isinstance(length, int) else 0
    return 0


def _chosen_in_walk(module: Module, site: Compile) -> cst.For | None:
    """The loop `for m in model.modules(): if isinstance(m, nn.Linear):` around a compile of `m`."""
    import libcst as cst

    from torchlint.model.training.loops import Loops

    around = module.fact(Loops).around(site.node)
    loop = around[0].node if around else None
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
        return None
    walk = loop.iter.func
    if not isinstance(walk, cst.Attribute) or walk.attr.value not in _WALKS or not isinstance(site.target, cst.Name):
        return None
    for above in module.tree.ancestors(site.node):
        if above is loop:
            return None
        if isinstance(above, cst.If) and isinstance(above.test, cst.Call):
            test = above.test
            if module.name_of(test.func) != "builtins.isinstance" or len(test.args) != 2:
                continue
            kinds = test.args[1].value
            classes = [item.value for item in kinds.elements] if isinstance(kinds, cst.Tuple) else [kinds]
            if all(_is_layer(module.name_of(item) or "") for item in classes):
                return loop
    return None


# -- compile the whole


def _as_one(module: Module, site: Compile) -> Edits | None:
    import libcst as cst

    loop = _chosen_in_walk(module, site)
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
            if inner is None or len(above.args) != 1:
                return None
            return (Edit(start, start, "torch.compile("), *inner, Edit(end, end, f"{options})"))
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
    start, end = module.span(loop)[0], edits.statement_end(module, loop)
    if "#" in module.text[start:end]:
        return None
    options = ", ".join(module.code(item) for item in site.options)
    return (Edit(start, end, f"{module.code(loop.iter.func.value)}.compile({options})"),)
