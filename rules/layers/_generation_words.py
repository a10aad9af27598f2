"""Words without which a text generates no tokens one by one; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.growth_words import growing_loops

#: Words of a loop or call that keeps something of the tokens before; `last_hidden_state` is what a network gives.
STATE = re.compile(
    r"past|cache|(?<!last_)hidden|(?<!last_hidden_)state|"
    r"mems?\b|memory_kv|start_pos|offset|inference_params|incremental",
    re.IGNORECASE,
)
#: Words of a loop that chooses the next token.
_CHOOSES = re.compile(r"argmax|multinomial|topk|sample|max|sort|-\s*1\b")


def generates_uncached(text: str) -> bool:
    """Whether a loop appends what it chooses to a tensor, and keeps no state of the tokens before."""
    return any(STATE.search(loop) is None and _CHOOSES.search(loop) is not None for loop in growing_loops(text))
