"""``torchlint explain`` and ``torchlint rules``: what there is to know about rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from torchlint.evidence import Evidence, evidence_for, measurements, ratio
from torchlint.rule import HEADINGS, Rule


def fix_kind(rule: Rule) -> str:
    """ "safe", "unsafe" or "safe/unsafe", as the page's section on the fix begins, else "none"."""
    begin = rule.page().sections.get("Fix safety", "").partition(":")[0].partition(",")[0].lower()
    return {"safe": "safe", "unsafe": "unsafe", "safe or unsafe": "safe/unsafe"}.get(begin, "none")


def page(rule: Rule, measured: Sequence[Evidence] | None = None) -> str:
    """A rule's page in Markdown, with what was measured for it (by default, what the package knows)."""
    content = rule.page()
    measured = measurements(rule.code) if measured is None else measured
    facts = [f"Default: {rule.default.value}."]
    if rule.since:
        facts.append(f"Needs torch {rule.since[0]}.{rule.since[1]}.")
    if not rule.demo:
        facts.append("It has no speed-up to show.")
    elif not measured:
        facts.append("Speed-up: not measured yet.")
    elif "GPU" in rule.demo and not any(evidence.gpu for evidence in measured):
        facts.append("Not measured on a GPU yet.")
    parts = [f"# {rule.code} {rule.name}", content.summary, " ".join(facts)]
    parts += [f"## {heading}\n\n{content.sections[heading]}" for heading in HEADINGS if heading in content.sections]
    if measured:
        parts.append("## Evidence\n\n" + "\n".join(map(_measured, measured)))
    if rule.options:
        options = "\n".join(f"- `{name}` (default: `{value!r}`)" for name, value in rule.options.items())
        parts.append(f"## Options\n\nIn `[tool.torchlint.rules.{rule.name}]`:\n\n{options}")
    return "\n\n".join(parts) + "\n"


def _measured(evidence: Evidence) -> str:
    """One measurement as an item of a list."""
    said = ", ".join(filter(None, (evidence.verdict, evidence.reason, evidence.figure)))
    stale = " (stale: the programs have changed since)" if evidence.stale else ""
    return f"- {evidence.size}: {said}{stale}; {evidence.device}, torch {evidence.torch}, {evidence.date}"


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
    """Write one line per rule: code, name, default, fix, measured speed-up, what it finds."""
    rows = [("code", "name", "default", "fix", "measured", "finds")]
    for rule in rules:
        rows.append((rule.code, rule.name, rule.default.value, fix_kind(rule), _speedup(rule), rule.page().summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        out.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def _speedup(rule: Rule) -> str:
    """``3.4x, GPU``, or a dash."""
    evidence = evidence_for(rule.code)
    if evidence is None or evidence.speedup is None or not rule.demo:
        return "-"
    return f"{ratio(evidence.speedup)}x, {'stale' if evidence.stale else 'GPU' if evidence.gpu else 'CPU'}"


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
