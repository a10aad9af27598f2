"""Words without which a file compiles nothing."""

from __future__ import annotations

import re

#: A decorator or a call of ``torch.compile``, or ``module.compile()``; not ``re.compile(`` or ``torch.compiler``.
COMPILES = re.compile(
    r"\b(?:torch|th)\.compile\b|\bimport[^\n]* compile\b"
    r"|(?<!\bre)\.compile\((?:\)|mode|full|dynamic|backend|options|\*\*|\r?\n)"
)
