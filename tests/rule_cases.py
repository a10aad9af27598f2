"""Reads ``fixtures/<rule-name>/cases.py``: what a rule flags, what it leaves alone, and what its fix makes of it.

A file is a row of sections, each linted as a file of its own:

    # === fires: <what is wrong>            rows below ``# !TL101`` are flagged, and no others
    # === fires, no fix: <why there is none>
    # === fixed safe | fixed unsafe         the section before, after the fixes of that applicability
    # === silent: <why it is none>
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

_HEADER = re.compile(r"^# === (fires, no fix|fires|fixed safe|fixed unsafe|silent)(?:: *(.+?))? *$")
_MARKER = re.compile(r"^\s*# !(TL\d{3})\s*$")


@dataclass
class Case:
    """One section of a case file."""

    rule: str
    kind: str
    title: str
    row: int  #: of its header in the case file
    text: str = ""
    expected: list[tuple[int, str]] = field(default_factory=list)  #: row in ``text`` and code of each finding
    fixed: dict[str, str] = field(default_factory=dict)  #: applicability -> text after the fixes

    @property
    def fires(self) -> bool:
        """Whether the section holds what the rule is about."""
        return self.kind.startswith("fires")

    def __str__(self) -> str:
        return f"{self.rule}:{self.row}"


def read_cases(rule: str) -> list[Case]:
    """The cases of the rule called ``rule``. Raises ValueError where the file does not keep to the format."""
    path = FIXTURES / rule / "cases.py"
    if not path.is_file():
        return []  # one test says so; the others still run
    cases: list[Case] = []
    target: list[str] = []
    sections: list[tuple[Case, str, list[str]]] = []
    for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        header = _HEADER.match(line)
        if header is None:
            if line.startswith("# ==="):
                raise ValueError(f"{path}:{row}: not a section header: {line}")
            target.append(line)
            continue
        kind, title = header.group(1), header.group(2)
        target = []
        if kind.startswith("fixed"):
            if not cases or cases[-1].kind != "fires":
                raise ValueError(f"{path}:{row}: a fixed section follows the section it is made from")
        else:
            if not title:
                raise ValueError(f"{path}:{row}: a section says what it shows")
            cases.append(Case(rule, kind, title, row))
        sections.append((cases[-1], kind, target))
    for case, kind, lines in sections:
        if kind.startswith("fixed"):
            case.fixed[kind.split()[1]] = _joined(lines)
        else:
            _take(case, lines)
    return cases


def _take(case: Case, lines: list[str]) -> None:
    kept: list[str] = []
    for line in lines:
        marker = _MARKER.match(line)
        if marker is None:
            kept.append(line)
        else:
            case.expected.append((len(kept) + 1 - _leading_blanks(lines), marker.group(1)))
    case.text = _joined(kept)


def _leading_blanks(lines: list[str]) -> int:
    return next((i for i, line in enumerate(lines) if line.strip()), 0)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"
