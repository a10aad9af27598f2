"""Write the completion scripts anew: ``python -m torchlint.completions``."""

from __future__ import annotations

from torchlint.completions import SHELLS, generate, path

for shell in SHELLS:
    path(shell).write_text(generate(shell), encoding="utf-8", newline="\n")
