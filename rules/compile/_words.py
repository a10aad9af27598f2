"""Words without which a file compiles nothing."""

from __future__ import annotations

#: A decorator or a call of ``torch.compile``, or ``module.compile()``; not ``re.compile(``.
COMPILES = (
    "torch.compile",
    "th.compile",
    "import compile",
    *(f".compile({first}" for first in (")", "mode", "full", "dynamic", "backend", "options", "**", "\n", "\r")),
)
