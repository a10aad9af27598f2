"""Words without which a file compiles nothing, or contains no code that may run compiled."""

from __future__ import annotations

import re

#: A decorator or a call of ``torch.compile``, or ``module.compile()``; not ``re.compile(`` or ``torch.compiler``.
#: It begins with a word, which `re` looks for quickly.
COMPILES = re.compile(
    r"compile\b(?:(?<=\btorch\.compile)|(?<=\bth\.compile)|(?<=\bimport compile)|(?<=, compile)(?=[\s,]|$)"
    r"|(?<=\.compile)(?<!\bre\.compile)\((?:\)|mode|full|dynamic|backend|options|\*\*|\r?\n))"
)
#: Code that computes with tensors, which another file may compile.
COMPUTES = (
    "torch",
    *(".item()", ".clamp(", ".detach()", ".mean(", ".permute(", ".relu()", ".sigmoid()", ".softmax(", ".sqrt()"),
    *(".sum(", ".transpose(", ".unsqueeze(", ".view("),
)
