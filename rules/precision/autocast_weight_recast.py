from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._autocast_sketch import may_be_under_autocast
from ._layer_sketch import may_have_products

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call
    from torchlint.rule.sketch import Sketch

    from ._recasts import Recast


class AutocastWeightRecast(Rule):
    """Autocast casts the same float32 weights at every call of a network that is never trained.

    ## What it does
    Flags a forward pass under autocast in a file that trains nothing, if the network is created there in float32 and
    processes one item after the other: in a decoding loop, or in a function that is called for each request.

    Not flagged are

    - loops over batches: the more there is to compute, the less the cast of the weights matters;
    - convolutional networks;
    - networks whose dtype is not known.

    ## Why it is slow
    Autocast keeps the weights in float32 and casts them to 16 bits when a layer needs them. It caches the cast weights
    until the outermost autocast block ends. In inference mode it caches nothing, and it never caches parameters that do
    not require gradients. Every layer then reads its float32 weights, and writes and reads their 16-bit copy, at each
    call. This is several times the memory traffic of weights stored in 16 bits. With few rows per call, memory traffic
    is the whole cost.

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
    model.to(torch.bfloat16)  # once, where the model is created
    ```
    Autocast may stay. It then casts only inputs, and the weights of the operations that it runs in float32.

    ## Fix safety
    Unsafe: everything in the network that is float32 is rounded, including weights that autocast does not cast, such as
    those of norms and position tables. Code that runs the network outside of autocast gets 16-bit weights.

    The fix converts the network once to the dtype of autocast, after the lines that create and prepare it. It is
    offered if the file creates the network, and if autocast and the network are certain to be on the same device: if
    autocast is disabled, float32 inputs meet 16-bit weights. No fix is offered

    - if the file also runs the network outside of autocast;
    - if the network contains batch or instance norms, which raise an error for a float32 input and 16-bit weights;
    - if it contains layer or group norms and may run on the CPU, where these raise the same error. An exception is a
      network with an embedding, whose outputs are 16-bit too.

    ## When to ignore
    Ignore it if weights must stay in float32. Parts of the network may need the precision, or other code may train the
    network that this file uses.

    ## References
    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
    - [Inference mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode)
    """

    code = "TL308"
    name = "autocast-weight-recast"
    words = ("autocast",)
    project_words = (("Linear", "Attention", "Transformer", "dot_product_attention"),)
    since = (1, 6)
    demo = ("GPU", "CPU")

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a network that multiplies matrices may run under an autocast that is on."""
        return may_have_products(sketch) and may_be_under_autocast(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._recasts import Recasts

        for recast in module.fact(Recasts).all:
            model = module.code(recast.site.model)
            yield self.diagnostic(
                module,
                recast.site.forward,
                f"`{model}` is never trained here, yet autocast casts its weights at every call",
                label="casts all float32 weights again",
                notes=(
                    Note.at(module, recast.autocast.call.node, f"{recast.reason}; autocast starts"),
                    Note.at(module, recast.layer.node, f"`{recast.layer.name}` is created in float32"),
                    *(_norm_note(module, norm) for norm in (module.fact(Recasts).norm(recast),) if norm is not None),
                ),
                fix=_fix(module, recast),
            )


def _norm_note(module: Module, norm: Call) -> Note:
    return Note.at(module, norm.node, f"no fix: `{norm.name}` raises an error for 16-bit weights and a float32 input")


def _fix(module: Module, recast: Recast) -> Fix | None:
    """Convert the network to the dtype of autocast where it is created."""
    from torchlint.model.training.inference_places import constructing_statement

    from ._recasts import Recasts, prepared

    recasts = module.fact(Recasts)
    if not recasts.shares_device_with_network(recast) or recasts.norm(recast) or recasts.runs_in_float32(recast):
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
        f"convert the network to {dtype.rpartition('.')[2]} once",
        changed,
        Applicability.UNSAFE,
        "rounds all weights, including those of norms",
    )
