"""``torchlint explain RULE``: the pages of rules."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, UsageError, known_rules, report_evidence_problems, rules_named


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint explain", description="Show the pages of rules.")
    parser.add_argument(
        "rule", nargs="*", metavar="RULE", help="codes, prefixes or names, such as TL101, TL1 or missing-eval"
    )
    parser.add_argument("--all", action="store_true", help="show the pages of all rules")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="default: text")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Show the pages of some rules, or of all."""
    from torchlint.output.pages import pages_json, write_pages

    options = parser().options(arguments)
    rules = known_rules(options)
    if not options.all and not options.rule:
        raise UsageError("no rule is given: `torchlint explain TL101`, or `torchlint explain --all`")
    named = [rule for word in options.rule for rule in rules_named(word, rules)]
    shown = rules if options.all else list(dict.fromkeys(named))
    if options.output_format == "json":
        print(pages_json(shown))
    else:
        write_pages(shown, sys.stdout)
    report_evidence_problems()
    return CLEAN
