"""``torchlint explain`` and ``torchlint rules``: what there is to know about rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from torchlint.evidence import evidence_for
from torchlint.rule import HEADINGS, Rule


def fix_kind(rule: Rule) -> str:
    """ "safe" or "unsafe", as the page's section on the fix begins, else "none"."""
    words = rule.page().sections.get("Fix safety", "").lower().replace(":", " ").replace(",", " ").split()
    return words[0] if words[:1] in (["safe"], ["unsafe"]) else "none"


def page(rule: Rule) -> str:
    """A rule's page in Markdown."""
    content = rule.page()
    facts = [f"Default: {rule.default.value}."]
    if rule.since:
        facts.append(f"Needs torch {rule.since[0]}.{rule.since[1]}.")
    evidence = evidence_for(rule.code)
    if evidence:
        facts.append(f"Measured: {evidence}.")
    elif rule.demo:
        facts.append("Speed-up: not measured yet.")
    else:
        facts.append("It has no speed-up to show.")
    parts = [f"# {rule.code} {rule.name}", content.summary, " ".join(facts)]
    parts += [f"## {heading}\n\n{content.sections[heading]}" for heading in HEADINGS if heading in content.sections]
    if rule.options:
        options = "\n".join(f"- `{name}` (default: `{value!r}`)" for name, value in rule.options.items())
        parts.append(f"## Options\n\nIn `[tool.torchlint.rules.{rule.name}]`:\n\n{options}")
    return "\n\n".join(parts) + "\n"


def write_pages(rules: Sequence[Rule], out: TextIO) -> None:
    """Write the pages of rules: rendered on a terminal, as plain Markdown elsewhere."""
    text = "\n".join(map(page, rules))
    if not out.isatty():
        out.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=out).print(Markdown(text))


def write_table(rules: Sequence[Rule], out: TextIO) -> None:
    """Write one line per rule: code, name, default, fix, what it finds."""
    width = max((len(rule.name) for rule in rules), default=0)
    rows = [(rule.code, rule.name, rule.default.value, fix_kind(rule), rule.page().summary) for rule in rules]
    for code, name, default, fix, summary in [("code", "name", "default", "fix", "finds"), *rows]:
        out.write(f"{code:<5}  {name:<{width}}  {default:<7}  {fix:<6}  {summary}\n")


def table_json(rules: Sequence[Rule]) -> str:
    """The same, for programs."""
    return json.dumps(
        [
            {
                "code": rule.code,
                "name": rule.name,
                "family": rule.family(),
                "default": rule.default.value,
                "fix": fix_kind(rule),
                "severity": rule.severity().value,
                "since": ".".join(map(str, rule.since)) if rule.since else None,
                "demo": list(rule.demo),
                "options": dict(rule.options),
                "summary": rule.page().summary,
            }
            for rule in rules
        ],
        indent=2,
    )
