"""``torchlint rules``: all rules, one line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, known_rules


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint rules", description="List the rules.")
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    return parser


def run(arguments: Sequence[str]) -> int:
    """List the rules."""
    from torchlint.output.pages import table_json, write_table

    options = parser().options(arguments)
    if options.output_format == "json":
        print(table_json(known_rules(options)))
    else:
        write_table(known_rules(options), sys.stdout)
    return CLEAN
