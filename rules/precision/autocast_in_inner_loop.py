from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule
from torchlint.source.ranges import Edit

from ._autocast_sketch import may_repeat_autocast

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._inner_autocasts import InnerAutocast


class AutocastInInnerLoop(Rule):
    """A loop in the forward pass enters autocast at each iteration, which casts the same weights each time.

    ## What it does
    Flags `with torch.autocast(...)` in a loop over time steps, refinements or layers, if the loop is part of a training
    step or of the `forward` of a network, and the region runs the same network in each iteration.

    Not reported: loops over batches; loops with a backward pass or an optimizer step; regions that switch autocast off;
    loops under an outer autocast; inference (see TL308 (autocast-weight-recast)); and loops in which each iteration
    runs other layers.

    ## Why it is slow
    Autocast casts each float32 weight once and caches the result until the outermost autocast region ends. If a loop
    enters autocast at each iteration, each weight is read, cast and written again at each iteration. Each cast is an
    operation of the graph, so that the backward pass also casts and adds one gradient per iteration.

    ## Example
    ```python
    for step in range(12):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = self.update(hidden, context)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for step in range(12):
            hidden = self.update(hidden, context)
    ```
    If other operations of the loop must stay in float32, put only these under
    `torch.autocast("cuda", enabled=False)`: an inner region keeps the cache of the outer one.

    ## Fix safety
    Unsafe: the weights then get one cast, so that the gradients of all iterations are added in 16 bits. The fix
    exchanges the two header lines. It is only offered if the region is all of the loop.

    ## When to ignore
    When the weights are small compared to the activations.

    ## References
    - [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
    - [Weight cache of autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
    """

    code = "TL307"
    name = "autocast-in-inner-loop"
    default = Default.INFO
    words = ("autocast", re.compile(r"with [^\n]{0,200}autocast"), re.compile(r"(?m)^[ \t]*(?:for|while)\b"))
    since = (1, 6)
    demo = ("GPU",)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop enters an autocast."""
        return may_repeat_autocast(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._inner_autocasts import InnerAutocasts

        for found in module.fact(InnerAutocasts).all:
            network = module.code(found.network.func)
            yield self.diagnostic(
                module,
                found.autocast,
                f"the loop enters autocast at each iteration, which casts the weights of `{network}` each time",
                label="the cache of cast weights ends with the region",
                notes=(
                    Note.at(module, found.loop.node, "the loop"),
                    Note.at(module, found.network, "each iteration uses the same weights"),
                ),
                fix=_exchange(module, found),
            )


def _exchange(module: Module, found: InnerAutocast) -> Fix | None:
    """Exchange the header lines of the loop and of the region."""
    import libcst as cst

    loop, region = found.loop.node, found.region
    if loop.orelse is not None or not isinstance(loop.body, cst.IndentedBlock) or list(loop.body.body) != [region]:
        return None
    if not isinstance(region.body, cst.IndentedBlock) or module.tree.parent(region) is not loop.body:
        return None
    if isinstance(loop, cst.While) or any(
        isinstance(node, (cst.Name, cst.NamedExpr)) and _is_bound(module, node, loop)
        for node in module.tree.nodes_in(found.autocast)
    ):
        return None
    headers = [module.line(module.row(node)).rstrip("\r\n") for node in (loop, region)]
    adjacent = module.row(region) == module.row(loop) + 1
    if not adjacent or any("#" in text or not text.rstrip().endswith(":") for text in headers):
        return None
    edited = []
    for node, text in zip((loop, region), reversed(headers), strict=True):
        start = module.line_start(module.span(node)[0])
        own = module.line(module.row(node)).rstrip("\r\n")
        indent = len(own) - len(own.lstrip())
        edited.append(Edit(start + indent, start + len(own), text.strip()))
    return Fix(
        "enter autocast before the loop",
        tuple(edited),
        Applicability.UNSAFE,
        "adds the gradients of all iterations in 16 bits",
    )


def _is_bound(module: Module, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether ``loop`` binds the name ``node``."""
    import libcst as cst

    if not isinstance(node, cst.Name):
        return True
    return any(module.tree.within(item.node, loop) for item in module.names.bindings(node))
