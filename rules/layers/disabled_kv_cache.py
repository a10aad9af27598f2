from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_OPTION = "use_cache"
_CONFIG = "transformers.GenerationConfig"
#: Libraries whose networks have the `generate` of transformers.
_LIBRARIES = ("transformers", "peft", "trl", "unsloth")
#: Parameters of that `generate`.
_PARAMETERS = frozenset(
    "input_ids inputs inputs_embeds attention_mask pixel_values input_features max_new_tokens max_length min_length "
    "do_sample num_beams temperature top_k top_p pad_token_id eos_token_id generation_config stopping_criteria "
    "num_return_sequences repetition_penalty streamer logits_processor return_dict_in_generate".split()
)
#: Results that contain all positions at each token if there is no cache.
_RESULTS = frozenset({"output_hidden_states", "output_attentions"})
#: What needs all positions at every token, has no cache, or shows that both ways are compared.
_REASONS = re.compile(
    r"_forward_(?:pre_)?hook|transformer_lens|nnsight|pyvene|trust_remote_code ?= ?True|gradient_checkpointing_enable"
    r"|use_cache['\"]?\s?[=:]\s?True|prepare_inputs_for_generation|\.forward = |[Mm]amba|[Rr]wkv"
    r"|PrefixTuning|PromptTuning"
)


class DisabledKvCache(Rule):
    """`generate(use_cache=False)` computes all earlier tokens again for each new token.

    ## What it does
    Flags `use_cache=False` in calls of `generate` of a model of `transformers`, and in `GenerationConfig`.

    Not reported: calls with a comment, which may give the reason; one of several branches; calls that generate one
    token or return hidden states or attention weights; models with a class of the program or with
    `trust_remote_code=True`, which may have no cache; and programs that register forward hooks, enable gradient
    checkpointing, or generate with the cache elsewhere.

    ## Why it is slow
    The cache contains the keys and values of all tokens so far, so that each step runs the network on one token.
    Without it, each step runs the network on the whole sequence: for `n` tokens, `n` forward passes over up to `n`
    positions.

    ## Example
    ```python
    tokens = model.generate(**inputs, max_new_tokens=256, use_cache=False)
    ```

    ## Use instead
    ```python
    tokens = model.generate(**inputs, max_new_tokens=256)
    ```
    If memory is short, `cache_implementation="offloaded"` keeps the cache of most layers on the host, and
    `cache_implementation="quantized"` stores it with fewer bits.

    ## Fix safety
    Unsafe: the cache takes memory, and results round differently, so that other tokens may be sampled. The fix passes
    `use_cache=True`, because the configuration of the model may turn the cache off as well.

    ## When to ignore
    When the model has no cache, or its cache does not fit into memory.

    ## References
    - [Caching](https://huggingface.co/docs/transformers/cache_explanation)
    - [KV cache strategies](https://huggingface.co/docs/transformers/kv_cache)
    """

    code = "TL712"
    name = "disabled-kv-cache"
    words = ("use_cache", re.compile(r"use_cache['\"]?\s?[=:]\s?False"))
    project_words = (_LIBRARIES, ("generate(", "GenerationConfig("))

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.alternatives import without_reason

        for call, value in without_reason(module, _calls(module), _OPTION, ("False",), _REASONS):
            if _is_short(call):
                continue
            edited = edits.replace(module, value, "True")
            yield self.diagnostic(
                module,
                call.argument(_OPTION).node or value,
                "`use_cache=False` computes all earlier tokens again for each new token",
                label="each step runs the network on the whole sequence",
                fix=Fix("pass `use_cache=True`", edited, Applicability.UNSAFE, "the cache takes memory"),
            )


def _calls(module: Module) -> Iterator[Call]:
    yield from module.own_calls(_CONFIG)
    yield from (call for call in module.own_methods("generate") if _generates(module, call))


def _generates(module: Module, call: Call) -> bool:
    """Whether a call of `generate` is one of transformers."""
    from torchlint.model.semantics.knowledge import Kind
    from torchlint.model.syntax.calls import keywords_of

    if module.definitions.called(call.node, module.values):
        return False
    if not any(name.partition(".")[0] in _LIBRARIES for name in module.imported_names):
        return False
    receiver = module.value(call.receiver)
    if receiver.definition is not None or receiver.kind not in (Kind.MODULE, Kind.UNKNOWN):
        return False
    if receiver.name and receiver.name.partition(".")[0] not in _LIBRARIES:
        return False
    keywords = keywords_of(call.node).keys()
    return bool(keywords & _PARAMETERS) and not keywords & _RESULTS


def _is_short(call: Call) -> bool:
    """Whether a call generates one token."""
    return call.argument("max_new_tokens").literal() == "1"
