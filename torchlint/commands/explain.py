"""``torchlint explain CODE-OR-NAME``: a rule's page."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, Parser, UsageError, known_rules
from torchlint.rule.registry import find_rule
from torchlint.rule.rule import Rule


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(prog="torchlint explain", description="Show the pages of rules.")
    parser.add_argument("rule", nargs="*", metavar="CODE-OR-NAME", help="rules, such as TL101 or missing-eval")
    parser.add_argument("--all", action="store_true", help="show the pages of all rules")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Show the pages of some rules, or of all."""
    from torchlint.output.pages import write_pages

    options = parser().parse_args(arguments)
    rules = known_rules()
    if not options.all and not options.rule:
        raise UsageError("no rule is given: `torchlint explain TL101`, or `torchlint explain --all`")
    shown = rules if options.all else list(dict.fromkeys(_find(word, rules) for word in options.rule))
    write_pages(shown, sys.stdout)
    return CLEAN


def _find(word: str, rules: Sequence[Rule]) -> Rule:
    """The rule with that code or name. Raises UsageError."""
    rule = find_rule(rules, word)
    if rule is None:
        names = {name.lower(): name for rule in rules for name in (rule.code, rule.name)}
        close = difflib.get_close_matches(word.lower(), names, n=1)
        hint = f"did you mean `{names[close[0]]}`?" if close else "`torchlint rules` lists them"
        raise UsageError(f"unknown rule `{word}`; {hint}")
    return rule
