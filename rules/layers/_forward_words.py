"""Words in the body of a `forward`, found without parsing; no heavy imports."""

from __future__ import annotations

import re

#: The layers of torch.nn that have parameters or buffers.
LAYERS = (
    r"(?:Linear|LazyLinear|Bilinear|(?:Lazy)?Conv(?:Transpose)?[123]d|(?:Lazy)?BatchNorm[123]d|SyncBatchNorm|LayerNorm|RMSNorm|"
    r"GroupNorm|InstanceNorm[123]d|Embedding|EmbeddingBag|LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell|MultiheadAttention|PReLU|"
    r"Transformer(?:Encoder|Decoder)?(?:Layer)?)"
)
_FORWARD = re.compile(r"(?:_?forward\w*|__call__|training_step)\(")


def occurs_in_forward(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether ``pattern`` occurs behind the ``def`` of a ``forward``, before the next ``def``."""
    return any(_FORWARD.match(part) and pattern.search(part) for part in text.split("def ")[1:])
