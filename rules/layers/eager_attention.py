from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_OPTION = "attn_implementation"
_EAGER = ('"eager"', "'eager'")
#: A class of a model or of its configuration, and how an object of it is made.
_MAKES = re.compile(r"transformers\.(?:\w+\.)*\w*(?:Model|Config|For[A-Z]|LMHead)\w*\.from_(?:pretrained|config)")
#: What needs the weights of eager attention, replaces its layers, or shows that the implementation was chosen.
_REASONS = re.compile(
    r"attentions\b|attn_weights|attention_weights|head_mask|_forward_(?:pre_)?hook|\.forward = |self_attn"
    r"|eager_attention_forward|ALL_ATTENTION_FUNCTIONS|transformer_lens|nnsight|nnterp|captum|pyvene"
    r"|onnx|torch\.export|jit\.trace|openvino|coreml|executorch|tflite|neuronx|optimum"
    r"|['\"]sdpa['\"]|flash_attention|flex_attention|trust_remote_code ?= ?True|use_deterministic_algorithms"
)
#: Models for which eager attention is recommended, or without another implementation in some releases.
_EAGER_MODELS = re.compile(
    r"gemma|gpt[-_]?oss|t5|ul2|deberta|longformer|big_?bird|xlnet|xlm|mpnet|bloom|gpt[-_]?j|codegen|gpt[-_]?neo(?!x)|"
    r"layoutlm|"
    r"reformer|roformer|funnel|wavlm|vilt|florence|lxmert|prophetnet|splinter|tapas|trocr|perceiver|mamba|rwkv|canine|"
    r"convbert|flaubert|flava|fnet|fsmt|imagegpt|nystromformer|rembert|speecht5|squeezebert|switch|timesformer|"
    r"visual_?bert|"
    r"yoso|swin|detr|phi[-_]?3|internvl|minicpm|deepseek|(?<![a-z])(?:led|git|mpt|mega|vits|luke|dino)(?![a-z])",
    re.IGNORECASE,
)


class EagerAttention(Rule):
    """A model of `transformers` is loaded with `attn_implementation="eager"`.

    ## What it does
    Flags `attn_implementation="eager"` in `from_pretrained` and `from_config` of a model or configuration class of
    `transformers`, also in a dictionary that the call unpacks.

    Not reported: calls with a comment, which may give the reason; one of several branches, and fallbacks; models for
    which eager attention is recommended or was the only implementation (Gemma, T5, DeBERTa); models with
    `trust_remote_code=True`; and programs that read attention weights, register forward hooks, replace attention
    layers, export the model or mention another implementation.

    ## Why it is slow
    Eager attention computes the scores of all pairs of positions for each head, stores them, applies the softmax in
    another kernel, and multiplies the result by the values. Its memory grows with the square of the length.
    `scaled_dot_product_attention` calls fused kernels that do not store the scores. It is the default of
    `transformers` for each model that supports it.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", attn_implementation="eager")
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype="auto")
    ```

    ## Fix safety
    Unsafe: fused kernels round differently, and `output_attentions=True` returns no weights. No fix is offered for an
    option in a dictionary.

    ## When to ignore
    When the program reads attention weights, or a result must be reproduced exactly.

    ## References
    - [Attention interface](https://huggingface.co/docs/transformers/attention_interface)
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL711"
    name = "eager-attention"
    words = ("attn_implementation", re.compile(r"attn_implementation['\"]?\s?[=:]\s?['\"]eager['\"]"))
    project_words = ("transformers",)
    since = (2, 1)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.alternatives import without_reason

        for call, value in without_reason(module, _calls(module), _OPTION, _EAGER, _REASONS):
            if _needs_eager(module, call):
                continue
            yield self.diagnostic(
                module,
                call.argument(_OPTION).node or value,
                f'`{_OPTION}="eager"` stores the attention scores of all pairs of positions',
                label="without it, `transformers` calls fused kernels",
                fix=_fix(module, call),
            )


def _calls(module: Module) -> Iterator[Call]:
    for node in module.tree.calls_in(module.root):
        name = module.name_of(node.func)
        if name is not None and _MAKES.fullmatch(name):
            yield module.call(node, name)


def _needs_eager(module: Module, call: Call) -> bool:
    """Whether the class or the name of the model is one for which eager attention may be needed."""
    texts = [call.name.split(".")[-2]]
    texts += [str(module.value(item.value).constant) for item in call.node.args[:1] if not item.star]
    return any(map(_EAGER_MODELS.search, texts))


def _fix(module: Module, call: Call) -> Fix | None:
    edited = edits.without_option(module, call, _OPTION)
    caution = "rounds differently, and returns no attention weights"
    return None if edited is None else Fix(f"remove `{_OPTION}`", edited, Applicability.UNSAFE, caution)
