"""``torchlint help [COMMAND]``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from torchlint.commands import CLEAN, COMMANDS, SYNONYMS, Parser, UsageError, suggested


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint help", description="Print the help of torchlint or of a command.")
    parser.add_argument("command", nargs="?", default="check", metavar="COMMAND", help=", ".join(COMMANDS))
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the help of a command."""
    given = parser().parse_args(arguments).command
    name = SYNONYMS.get(given, given)
    if name not in COMMANDS:
        raise UsageError(f"unknown command `{given}`{suggested(given, COMMANDS)}")
    module = importlib.import_module(f"torchlint.commands.{'arguments' if name == 'check' else COMMANDS[name]}")
    module.parser().print_help()
    return CLEAN
