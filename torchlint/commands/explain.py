"""``torchlint explain CODE-OR-NAME``: a rule's page."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, UsageError, known_rules, report_evidence_problems, rule_named


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint explain", description="Show the pages of rules.")
    parser.add_argument("rule", nargs="*", metavar="CODE-OR-NAME", help="rules, such as TL101 or missing-eval")
    parser.add_argument("--all", action="store_true", help="show the pages of all rules")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Show the pages of some rules, or of all."""
    from torchlint.output.pages import write_pages

    options = parser().options(arguments)
    rules = known_rules(options)
    if not options.all and not options.rule:
        raise UsageError("no rule is given: `torchlint explain TL101`, or `torchlint explain --all`")
    shown = rules if options.all else list(dict.fromkeys(rule_named(word, rules) for word in options.rule))
    write_pages(shown, sys.stdout)
    report_evidence_problems()
    return CLEAN
