"""``torchlint version``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from torchlint import __version__
from torchlint.commands import CLEAN, Parser


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint version", description="Print the version of torchlint.")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="default: text")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the version."""
    options = parser().options(arguments)
    print(json.dumps({"version": __version__}) if options.output_format == "json" else f"torchlint {__version__}")
    return CLEAN
