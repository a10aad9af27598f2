"""``torchlint explain CODE-OR-NAME``: a rule's page."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, UsageError, known_rules


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint explain", description="Show a rule's page.", allow_abbrev=False)
    parser.add_argument("rule", nargs="?", metavar="CODE-OR-NAME")
    parser.add_argument("--all", action="store_true", help="show the pages of all rules")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Show the page of one rule, or of all."""
    from torchlint.output.pages import write_pages
    from torchlint.rule.registry import find_rule

    options = parser().parse_args(arguments)
    rules = known_rules()
    if not options.all:
        if options.rule is None:
            raise UsageError("which rule? `torchlint explain TL101`, or `torchlint explain --all`")
        rule = find_rule(rules, options.rule)
        if rule is None:
            names = [word for rule in rules for word in (rule.code, rule.name)]
            close = difflib.get_close_matches(options.rule.lower(), [name.lower() for name in names], n=1)
            hint = next((f"; did you mean `{name}`?" for name in names if [name.lower()] == close), "")
            raise UsageError(f"unknown rule `{options.rule}`{hint or '; `torchlint rules` lists them'}")
        rules = [rule]
    write_pages(rules, sys.stdout)
    return CLEAN
