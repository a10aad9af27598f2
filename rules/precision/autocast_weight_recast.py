from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

    from ._recasts import Recast


class AutocastWeightRecast(Rule):
    """Autocast rounds the same float32 weights again at each call of a network that is only used.

    ## What it does
    Flags a forward under autocast in a file that trains nothing, where a network made there in float32 answers one
    item after the other: in a loop that decodes, or in a function that is called for each request. Loops over batches
    are left alone, for the more there is to compute, the less the weights weigh; so are networks of convolutions, and
    networks whose format cannot be seen.

    ## Why it is slow
    Autocast keeps the weights in float32 and rounds them to 16 bits when a layer needs them. It remembers the rounded
    weights until the outermost autocast is left. In inference mode it remembers nothing, nor for parameters that do
    not require gradients: every layer then reads its float32 weights and writes and reads their 16-bit copy at each
    call, several times the traffic of weights that are 16 bits wide to begin with. With few rows per call, traffic is
    all there is.

    ## Example
    ```python
    @torch.inference_mode()
    def generate(model, tokens, length):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for _ in range(length):
                logits = model(tokens)
                tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        return tokens
    ```

    ## Use instead
    ```python
    model.to(torch.bfloat16)  # once, where the model is made
    ```
    Autocast may stay around it: it then casts only inputs, and the weights of the operations that it runs in float32.

    ## Fix safety
    Unsafe: everything in the network that is float32 is rounded, also what autocast leaves alone, such as the weights
    of norms and tables of positions; what runs outside autocast meets 16-bit weights. The fix puts the network into
    the format of autocast once, behind the lines that make and prepare it. It is offered where the file makes the
    network and where autocast and the network are sure to be on the same device, since where autocast is off, float32
    inputs would meet 16-bit weights. No fix is offered

    - if the file also runs the network outside autocast;
    - if the network contains batch or instance norms, which raise an error where a float32 input meets 16-bit weights;
    - if it contains layer or group norms and may run on the CPU, where they do the same, unless the network contains
      an embedding, whose outputs have 16 bits too.

    ## When to ignore
    When weights must stay in float32, because parts of the network need the digits or the file shares the network
    with code that trains it.

    ## References
    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
    - [Inference mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode)
    """

    code = "TL308"
    name = "autocast-weight-recast"
    words = ("autocast", ("Linear", "Attention", "Transformer", "dot_product_attention"))
    since = (1, 10)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._recasts import Recasts

        for recast in module.fact(Recasts).all:
            model = module.code(recast.site.model)
            yield self.diagnostic(
                module,
                recast.site.forward,
                f"`{model}` is never trained here, yet autocast casts its weights at every call",
                label="casts the same float32 weights again",
                notes=(
                    Note.at(module, recast.autocast.call.node, f"{recast.reason}; autocast is entered"),
                    Note.at(module, recast.layer.node, f"`{recast.layer.name}` is created in float32"),
                    *(_norm_note(module, norm) for norm in (module.fact(Recasts).norm(recast),) if norm is not None),
                ),
                fix=_fix(module, recast),
            )


def _norm_note(module: Module, norm: Call) -> Note:
    return Note.at(module, norm.node, f"`{norm.name}` raises an error where 16-bit weights meet a float32 input")


def _fix(module: Module, recast: Recast) -> Fix | None:
    """Put the network into the format of autocast where it is made."""
    from torchlint.model.training.inference_places import constructing_statement

    from ._recasts import Recasts, prepared

    recasts = module.fact(Recasts)
    if not recasts.is_beside_network(recast) or recasts.norm(recast) or recasts.runs_in_float32(recast):
        return None
    site, dtype = recast.site, recast.autocast.dtype
    name, place = module.code(site.model), constructing_statement(module, site)
    if place is None:
        found = prepared(module, site)
        if found is None:
            return None
        name, place = found
    named = edits.name_module(module, "torch", place)
    if named is None or named[1]:
        return None
    changed = edits.insert_after(module, place, f"{name}.to({dtype.replace('torch', named[0], 1)})")
    if not changed:
        return None
    return Fix(
        f"put the network into {dtype.rpartition('.')[2]} once",
        changed,
        Applicability.UNSAFE,
        "rounds all weights, those of norms and tables too",
    )
