"""``torchlint generate-shell-completion SHELL``: a script that completes torchlint's arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser
from torchlint.completions import SHELLS, script


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint generate-shell-completion",
        description="Print a script that completes the arguments of torchlint.",
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the script of a shell."""
    from torchlint.settings.settings import all_rules

    options = parser().parse_args(arguments)
    rules = all_rules()
    names = [rule.code for rule in rules] + [rule.name for rule in rules]
    sys.stdout.write(script(options.shell, names))
    return CLEAN
