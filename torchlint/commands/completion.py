"""``torchlint generate-shell-completion SHELL``: a script that completes torchlint's arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from torchlint.commands import CLEAN, Parser

SHELLS = ("bash", "zsh", "fish")

#: In the scripts it is replaced by the codes and names of all rules.
_PLACEHOLDER = "TORCHLINT-RULES"


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint generate-shell-completion",
        description="Print a script that completes the arguments of torchlint.",
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the script of a shell."""
    from torchlint.settings.settings import all_rules

    options = parser().options(arguments)
    rules = all_rules()
    names = [rule.code for rule in rules] + [rule.name for rule in rules]
    sys.stdout.write(script(options.shell, names))
    return CLEAN


def script(shell: str, rules: Sequence[str]) -> str:
    """The completion script of a shell, with the codes and names of the rules."""
    text = path(shell).read_text(encoding="utf-8")
    return text.replace(_PLACEHOLDER, " ".join(rules))


def path(shell: str) -> Path:
    """The file of a shell's script, which ``python -m torchlint.completions`` generates."""
    return Path(__file__).parents[1] / "completions" / f"torchlint.{shell}"
