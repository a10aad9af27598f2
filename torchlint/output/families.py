"""``torchlint families``: the families of rules, with the prefix that selects each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from torchlint.rule.engine_rules import ENGINE
from torchlint.rule.rule import Rule


@dataclass(frozen=True)
class Family:
    """The rules of one folder of a rule pack."""

    name: str
    prefix: str  #: the selector of exactly these rules; empty if there is none
    rules: int
    summary: str  #: what the rules are about


def families(rules: Sequence[Rule]) -> list[Family]:
    """The families of ``rules``, in the order of their codes."""
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        by_name.setdefault(rule.family(), []).append(rule)
    return [Family(name, _prefix(own, rules), len(own), _summary(own[0])) for name, own in by_name.items()]


def write_families(rules: Sequence[Rule], out: TextIO) -> None:
    """Write one line per family."""
    rows = [("prefix", "family", "rules", "about")]
    rows += [(found.prefix or "-", found.name, str(found.rules), found.summary) for found in families(rules)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        out.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def write_families_json(rules: Sequence[Rule], out: TextIO) -> None:
    """Write the same, for programs."""
    out.write(json.dumps([asdict(found) for found in families(rules)], indent=2) + "\n")


def _prefix(own: Sequence[Rule], rules: Sequence[Rule]) -> str:
    """The letters and first digit of the codes of a family, if they select its rules and no other; else empty."""
    prefix = own[0].code[:-2]
    return prefix if [rule for rule in rules if rule.code.startswith(prefix)] == list(own) else ""


def _summary(rule: Rule) -> str:
    """What the rules of a family are about: the docstring of its package."""
    if rule.family() == ENGINE:
        return "Rules about files and suppressions, which torchlint itself reports."
    package = sys.modules.get(type(rule).__module__.rpartition(".")[0])
    return ((package and package.__doc__) or "").strip().partition("\n")[0]
