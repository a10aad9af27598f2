"""``torchlint help [COMMAND]``."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.commands import CLEAN, COMMANDS, SYNONYMS, Parser, UsageError, load, suggested


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint help", description="Print the help of torchlint or of a command.")
    parser.add_argument("command", nargs="?", default="check", metavar="COMMAND", help=", ".join(COMMANDS))
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the help of a command."""
    given = parser().options(arguments).command
    name = SYNONYMS.get(given, given)
    if name not in COMMANDS:
        raise UsageError(f"unknown command `{given}`{suggested(given, COMMANDS)}")
    load(name).parser().print_help()
    return CLEAN
