from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

from ._generation_sketch import may_generate_uncached
from ._generation_words import generates_uncached

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class UncachedGeneration(Rule):
    """Generation runs the network on the whole sequence for each new token.

    ## What it does
    Flags a forward pass in a loop that appends what it predicts to its own input by `torch.cat`, and passes no state
    of the tokens before: no `past_key_values`, no cache, no hidden state. The network may run in functions of the
    program that the loop calls.

    Only loops under `no_grad` and functions whose name says that they generate are reported, because the forward pass
    of a training step needs the whole sequence.

    ## Why it is slow
    For n tokens, the network computes 1 + 2 + ... + n positions, although the keys and values of earlier tokens do not
    change in a causal network. With a cache of keys and values, it computes each position once.

    ## Example
    ```python
    for _ in range(new_tokens):
        logits = model(tokens).logits[:, -1]
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    ```

    ## Use instead
    ```python
    cache, step = None, tokens
    for _ in range(new_tokens):
        output = model(step, past_key_values=cache, use_cache=True)
        cache, step = output.past_key_values, output.logits[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, step], dim=1)
    ```
    A network of your own needs an argument for the keys and values of earlier tokens. `generate()` of `transformers`
    has a cache. If a test for the end of the sequence follows each token, test every few tokens: each test waits for
    the GPU.

    ## Fix safety
    Advice: the network must be able to continue from a cache, and positions must count on from its length.

    ## When to ignore
    When few tokens are generated, when the network is not causal, or when simple code matters more, as in a tutorial.

    ## References
    - [transformers: KV cache](https://huggingface.co/docs/transformers/kv_cache)
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL718"
    name = "uncached-generation"
    default = Default.INFO
    words = ("torch", (".cat(", ".hstack(", ".concat(", " cat(", "(cat("), "-1")
    demo = ("CPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a loop may choose tokens and append them."""
        return super().may_concern(text) and generates_uncached(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop appends to a sequence that it passes to a call."""
        return may_generate_uncached(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._uncached import GenerationLoops

        for found in module.fact(GenerationLoops).all():
            yield self.diagnostic(
                module,
                found.call,
                f"`{module.code(found.network)}` runs on all of `{found.sequence}` for each new token",
                label="computes the earlier tokens again",
                notes=(Note.at(module, found.grown, "the new token is appended"),),
            )
