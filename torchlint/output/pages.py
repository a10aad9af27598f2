"""``torchlint explain`` and ``torchlint rules``: what there is to know about rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Sequence
from difflib import Differ
from typing import Any, TextIO

from torchlint.measure.figures import ratio
from torchlint.output.colour import console
from torchlint.rule.evidence import Evidence, conclusive, measurements
from torchlint.rule.rule import HEADINGS, REPORTED, Rule

#: The sections of a page: those of the docstring, and what torchlint adds.
_FIX = HEADINGS.index("Fix safety")
_ORDER = (*HEADINGS[:_FIX], "Evidence", REPORTED, *HEADINGS[_FIX:], "Options")


def fix_kind(rule: Rule) -> str:
    """ "safe", "unsafe" or "safe/unsafe", as the page's section on the fix begins, else "none"."""
    begin = rule.page().sections.get("Fix safety", "").partition(":")[0].partition(",")[0].lower()
    return {"safe": "safe", "unsafe": "unsafe", "safe or unsafe": "safe/unsafe"}.get(begin, "none")


def page(rule: Rule, measured: Sequence[Evidence] | None = None) -> str:
    """A rule's page in Markdown, with what was measured for it (by default, what the package knows)."""
    content = rule.page()
    measured = measurements(rule.name) if measured is None else measured
    parts = [f"# {rule.code} {rule.name}", content.summary, _facts(rule, measured)]
    sections = {heading: content.sections[heading] for heading in HEADINGS if heading in content.sections}
    change = _change(sections.get("Example", ""), sections.get("Use instead", ""))
    if change:
        sections["Example"] = change
        del sections["Use instead"]
    if measured:
        sections["Evidence"] = "\n".join([*_EVIDENCE_HEAD, *map(_measured, measured)])
    if REPORTED in content.sections:
        sections[REPORTED] = f"{_REPORTED_HEAD}\n\n{content.sections[REPORTED]}"
    if rule.options:
        options = "\n".join(f"- `{name}` (default: `{value!r}`)" for name, value in rule.options.items())
        sections["Options"] = f"In `[tool.torchlint.rules.{rule.name}]`:\n\n{options}"
    parts += [f"## {heading}\n\n{sections[heading]}" for heading in _ORDER if heading in sections]
    return "\n\n".join(parts) + "\n"


def _facts(rule: Rule, measured: Sequence[Evidence]) -> str:
    """The line under the title."""
    facts = [f"Default: {rule.default.value}.", f"Fix: {fix_kind(rule)}."]
    if rule.preview:
        facts.append("In preview: it runs with --preview only.")
    if rule.since:
        facts.append(f"Needs torch {rule.since[0]}.{rule.since[1]}.")
    if not rule.demo:
        facts.append("It has no speed-up to show.")
    elif not measured:
        facts.append("Speed-up: not measured yet.")
    elif "GPU" in rule.demo and not any(evidence.gpu for evidence in measured):
        facts.append("Not measured on a GPU yet.")
    return " ".join(facts)


_BLOCK = re.compile(r"```python\n(.*?)^```$\n*", re.DOTALL | re.MULTILINE)


def _change(example: str, instead: str) -> str:
    """Both sections as one: the code as a diff, then what else they say. Empty if they do not begin with code."""
    before, after = _BLOCK.match(example), _BLOCK.match(instead)
    if before is None or after is None:
        return ""
    lines = Differ().compare(before[1].splitlines(), after[1].splitlines())
    diff = "\n".join(line.rstrip() for line in lines if not line.startswith("?"))
    said = (f"```diff\n{diff}\n```", example[before.end() :].strip(), instead[after.end() :].strip())
    return "\n\n".join(filter(None, said))


_REPORTED_HEAD = "Figures that others measured with their programs. torchlint has not repeated these measurements."
_EVIDENCE_HEAD = ("| size | verdict | speed-up [95 % interval] | device | torch | date |", "|---|---|---|---|---|---|")


def _measured(evidence: Evidence) -> str:
    """One measurement as a row of the table."""
    verdict = ": ".join(filter(None, (evidence.verdict, evidence.reason)))
    if evidence.stale:
        verdict = f"stale, the programs have changed since ({verdict})"
    cells = (evidence.size, verdict, evidence.figure, evidence.where, evidence.torch, evidence.date)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def write_pages(rules: Sequence[Rule], out: TextIO) -> None:
    """Write the pages of rules: rendered on a terminal, as plain Markdown elsewhere."""
    text = "\n".join(map(page, rules))
    if not out.isatty():
        out.write(text)
        return
    from rich.markdown import Markdown

    console(out).print(Markdown(text))


def pages_json(rules: Sequence[Rule]) -> str:
    """The same, for programs: what `table_json` has of each rule, and its page in Markdown."""
    return json.dumps([{**_entry(rule), "explanation": page(rule)} for rule in rules], indent=2)


def write_table(rules: Sequence[Rule], out: TextIO) -> None:
    """Write one line per rule: code, name, default, fix, measured speed-up, what it finds.

    On a terminal, the last column is wrapped, or omitted if the terminal is too narrow for it.
    """
    rows = [("code", "name", "default", "fix", "measured", "finds")]
    for rule in rules:
        rows.append((rule.code, rule.name, rule.default.value, fix_kind(rule), speedup(rule), rule.page().summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    width = shutil.get_terminal_size().columns if out.isatty() or "COLUMNS" in os.environ else None
    for *cells, last in rows:
        head = "".join(f"{cell:<{wide}}  " for cell, wide in zip(cells, widths, strict=False))
        if width is None:
            out.write((head + last).rstrip() + "\n")
        elif width - indent < _NARROWEST_COLUMN:  # the columns themselves leave too little room
            out.write(_shortened(head.rstrip(), width) + "\n")
        else:
            wrapped = textwrap.wrap(last, width - indent) or [""]
            out.write((head + f"\n{' ' * indent}".join(wrapped)).rstrip() + "\n")


#: The last column is omitted if it would have fewer characters.
_NARROWEST_COLUMN = 24


def _shortened(text: str, width: int) -> str:
    """``text`` in at most ``width`` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def speedup(rule: Rule, measured: Sequence[Evidence] | None = None) -> str:
    """``3.4x, GPU``, or a dash: what a measurement with a verdict gave (by default, of those in the package)."""
    first = conclusive(measurements(rule.name) if measured is None else measured)
    if first is None or first.speedup is None or not rule.demo:
        return "-"
    return f"{ratio(first.speedup)}, {'stale' if first.stale else 'GPU' if first.gpu else 'CPU'}"


def table_json(rules: Sequence[Rule]) -> str:
    """The same, for programs."""
    return json.dumps([_entry(rule) for rule in rules], indent=2)


def _entry(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family(),
        "default": rule.default.value,
        "preview": rule.preview,
        "fix": fix_kind(rule),
        "severity": rule.severity().value,
        "since": ".".join(map(str, rule.since)) if rule.since else None,
        "demo": list(rule.demo),
        "options": dict(rule.options),
        "summary": rule.page().summary,
    }
