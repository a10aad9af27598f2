"""Write the completion scripts again: ``python -m torchlint.completions``."""

from __future__ import annotations

from torchlint.commands.completion import SHELLS, path
from torchlint.completions import generate

for shell in SHELLS:
    path(shell).write_text(generate(shell), encoding="utf-8", newline="\n")
