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


#: What gives a local name the result of a call.
_LOCAL = re.compile(r"(?<![\w.])(\w+) *= *(?:torch\.)?$")


def creates_and_runs(text: str, creates: re.Pattern[str]) -> bool:
    """Whether ``creates`` occurs behind the ``def`` of a ``forward``, before the next ``def``.

    Or behind another one but that of a constructor, if a local name gets what is created, and is called.
    """
    return any(
        creates.search(part) if _FORWARD.match(part) else _runs_created(part, creates)
        for part in text.split("def ")[1:]
    )


def _runs_created(part: str, creates: re.Pattern[str]) -> bool:
    """Whether a function that is not a constructor gives a local name what is created, and calls it."""
    if part.startswith("__init__("):
        return False
    for made in creates.finditer(part):
        local = _LOCAL.search(part, part.rfind("\n", 0, made.start()) + 1, made.start())
        if local is not None and f"{local[1]}(" in part[made.end() :]:
            return True
    return False
