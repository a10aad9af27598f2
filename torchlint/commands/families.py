"""``torchlint families``: the families of rules, one line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, known_rules


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint families", description="List the families of rules.")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="default: text")
    return parser


def run(arguments: Sequence[str]) -> int:
    """List the families."""
    from torchlint.output.families import write_families, write_families_json

    options = parser().options(arguments)
    write = write_families_json if options.output_format == "json" else write_families
    write(known_rules(options), sys.stdout)
    return CLEAN
