"""``python -m validation.report``: puts what was measured where people read it.

Writes ``rules/evidence.json`` (which the linter reads), ``docs/evidence.md`` with its charts, the rules' pages in
``docs/rules/`` and their place in the site's menu. Everything is made from ``validation/results/`` and the rules, so
running it again changes nothing. This part of the suite, and no other, needs the linter.
"""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields
from pathlib import Path

from torchlint.measure.results import load_all
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.evidence import Evidence, evidence_of
from torchlint.rule.registry import load_rules

from .document import chart, document, picture
from .pairs import ROOT, find_pairs
from .site import menu, rule_page, rules_index


def main() -> int:
    """Write all files; the exit status."""
    try:
        made = files()
    except (ValueError, OSError) as error:
        print(f"validation.report: {error}", file=sys.stderr)
        return 2
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
    return 0


def files(root: Path = ROOT) -> dict[Path, str]:
    """All files that are made from a checkout's results, with their content.

    Raises ValueError if a file of results or a pair cannot be read.
    """
    measured = load_all(root / "validation" / "results")
    pairs = {pair.name: pair for pair in find_pairs(root)}
    rules = load_rules()
    known = {rule.code: tuple(evidence_of(rule.name, measured, pairs)) for rule in rules}
    data = {rule.name: [_brief(one) for one in known[rule.code]] for rule in rules if known[rule.code]}
    made = {root / "rules" / "evidence.json": json.dumps(data, indent=1, ensure_ascii=False) + "\n"}
    made[root / "docs" / "evidence.md"] = document(rules, measured, pairs)
    for results in measured:
        made[root / "docs" / "evidence" / picture(results)] = chart(rules, results, pairs)
    listed = (*ENGINE_RULES, *rules)
    for rule in listed:
        made[root / "docs" / "rules" / f"{rule.code}.md"] = rule_page(rule, known.get(rule.code, ()), listed)
    made[root / "docs" / "rules" / "index.md"] = rules_index(listed, known)
    settings = root / "zensical.toml"
    made[settings] = menu(settings.read_text(encoding="utf-8"), listed)
    return made


def _brief(evidence: Evidence) -> dict[str, object]:
    """The fields that are not empty."""
    return {
        field.name: value
        for field in fields(evidence)
        if (value := getattr(evidence, field.name)) != field.default or field.default is MISSING
    }


if __name__ == "__main__":
    sys.exit(main())
