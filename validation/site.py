"""The parts of the documentation site that are generated from the rules: their pages, their list, the menu."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby

from torchlint.output.pages import fix_kind, page, speedup
from torchlint.rule import Rule
from torchlint.rule.engine_rules import ENGINE
from torchlint.rule.evidence import Evidence

INDEX = """\
# Rules

- **measured**: the speed-up of the rule's before/after program, and the kind of device. The program is written to show
  the pattern, so your code may gain less: [Evidence](../evidence.md) has the intervals, the sizes, the devices, and the
  programs that gain nothing.
- **default**: *on*; *info*: on, with findings at information level; *opt-in*: runs only if it is selected.
- **fix**: `--fix` applies *safe* fixes, and `--fix --unsafe-fixes` also applies *unsafe* ones; *none* means advice
  only. For *safe/unsafe*, the rule decides at each place.

`torchlint explain TL101` shows the same pages in a terminal.
"""


def rule_page(rule: Rule, measured: Sequence[Evidence], rules: Sequence[Rule]) -> str:
    """What ``torchlint explain`` shows, with links to other pages and the rule's files."""
    text = _linked(page(rule, measured), {other.code for other in rules} - {rule.code})
    facts = [f"- Since torchlint {rule.added}."]
    if related := _related(rule, rules):
        facts.append(f"- Related rules: {', '.join(related)}.")
    if rule.family() != ENGINE:
        files = f"`fixtures/{rule.name}/`"
        facts.append(f"- In the repository, {files} has the test cases (`cases.py`) and, for most rules, an example")
        facts[-1] += " program before and after the fix (`before.py`, `after.py`)."
    if measured:
        facts.append("- [Evidence](../evidence.md) describes how the example program was measured.")
    return text + "\n## More about this rule\n\n" + "\n".join(facts) + "\n"


def _related(rule: Rule, rules: Sequence[Rule]) -> list[str]:
    """Links to the rules that the page of a rule mentions, and to those whose pages mention it."""

    def mentioned(other: Rule) -> set[str]:
        content = other.page()
        return set(re.findall(r"\bTL\d{3}\b", "\n".join((content.summary, *content.sections.values()))))

    here = mentioned(rule)
    if rule.family() == ENGINE:  # their examples are about any rule
        return []
    return [
        f"[{other.code}]({other.code}.md) {other.name}"
        for other in sorted(rules, key=lambda other: other.code)
        if other.code != rule.code
        and other.family() != ENGINE
        and (other.code in here or rule.code in mentioned(other))
    ]


def rules_index(rules: Sequence[Rule], measured: Mapping[str, Sequence[Evidence]]) -> str:
    """The page that lists all rules by family."""
    parts = [INDEX]
    for family, members in _families(rules):
        rows = [_row(rule, measured.get(rule.code, ())) for rule in members]
        head = ["| rule | finds | measured | default | fix |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"## {_title(family)}", "", *_about(members[0]), *head, *rows]) + "\n")
    return "\n".join(parts)


def menu(settings: str, rules: Sequence[Rule]) -> str:
    """The site's settings with the rules' pages, by family, between their two marks in the menu."""
    lines = []
    for family, members in _families(rules):
        lines.append(f'    {{ "{_title(family)}" = [')
        lines += [f'      "rules/{rule.code}.md",' for rule in members]
        lines.append("    ] },")
    between = re.compile(r"(# rules: .*\n)(?:.*\n)*?(\s*# end of rules\n)")
    return between.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], settings)


def _linked(text: str, codes: set[str]) -> str:
    """The text with each code of a rule as a link to its page, but for those in code and in links."""
    parts = re.split(r"(^```.*?^```|`[^`\n]*`|\[[^]]*\]\([^)]*\))", text, flags=re.DOTALL | re.MULTILINE)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(
            r"\bTL\d{3}\b", lambda code: f"[{code[0]}]({code[0]}.md)" if code[0] in codes else code[0], parts[place]
        )
    return "".join(parts)


def _families(rules: Sequence[Rule]) -> list[tuple[str, list[Rule]]]:
    """The families in the order of their codes, the engine's own last."""
    ordered = sorted(rules, key=lambda rule: (rule.family() == ENGINE, rule.code))
    return [(family, list(members)) for family, members in groupby(ordered, key=lambda rule: rule.family())]


def _title(family: str) -> str:
    return "Files and comments" if family == ENGINE else family.replace("_", " ").capitalize()


def _about(rule: Rule) -> list[str]:
    """What the rules of a family are about: the docstring of its package, with an empty line."""
    package = sys.modules[type(rule).__module__.rpartition(".")[0]]
    return [] if rule.family() == ENGINE else [(package.__doc__ or "").strip(), ""]


def _row(rule: Rule, measured: Sequence[Evidence]) -> str:
    cells = (
        f"[{rule.code}]({rule.code}.md) {rule.name}",
        rule.page().summary,
        speedup(rule, measured),
        rule.default.value,
        fix_kind(rule),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
