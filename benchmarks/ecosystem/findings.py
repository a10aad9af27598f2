"""Findings as rows of a committed text file, and what tells two lists of them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROW = re.compile(r"(\S+) (.+?)(?::cell (\d+))?:(\d+) (\w+) (\S+)(?: (\w+))?")


@dataclass(frozen=True, order=True)
class Finding:
    """One finding in a project, without its message, which changes more often than what is found."""

    project: str
    path: str
    cell: int  #: of a notebook, counted from 1; 0 in any other file
    row: int
    code: str
    name: str
    fix: str  #: its applicability; empty if there is none

    @classmethod
    def from_report(cls, project: str, folder: Path, item: Mapping[str, Any]) -> Finding:
        """The finding of an item in torchlint's JSON."""
        path = Path(item["filename"]).relative_to(folder).as_posix()
        return cls(
            project=project,
            path=escaped(path),
            cell=item["cell"] or 0,
            row=item["location"]["row"],
            code=item["code"],
            name=item["name"],
            fix=item["fix"]["applicability"] if item["fix"] else "",
        )

    @classmethod
    def from_row(cls, row: str) -> Finding:
        """The finding that a row of the file states. Raises ValueError."""
        found = _ROW.fullmatch(row)
        if found is None:
            raise ValueError(f"not a finding: {row}")
        project, path, cell, line, code, name, fix = found.groups()
        return cls(project, path, int(cell or 0), int(line), code, name, fix or "")

    @property
    def place(self) -> str:
        """Where it is in its project."""
        return f"{self.path}:cell {self.cell}:{self.row}" if self.cell else f"{self.path}:{self.row}"

    def __str__(self) -> str:
        return f"{self.project} {self.place} {self.code} {self.name} {self.fix}".rstrip()


def escaped(text: str) -> str:
    """A text of strangers on one row, without control characters; different texts stay different."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def read(file: Path) -> list[Finding]:
    """The findings that a file lists; none if there is no file. Raises ValueError."""
    if not file.exists():
        return []
    rows = file.read_text(encoding="utf-8").splitlines()
    return [Finding.from_row(row) for row in rows if row and not row.startswith("#")]


def write(file: Path, findings: Iterable[Finding], projects: Iterable[str]) -> None:
    """Replace what a file lists of some projects, and leave what it lists of others."""
    replaced = set(projects)
    kept = [finding for finding in read(file) if finding.project not in replaced]
    rows = [str(finding) for finding in sorted([*kept, *findings])]
    head = "# Written by `python -m benchmarks.ecosystem --update`: project, place, rule and its name, kind of fix."
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([head, *rows, ""]), encoding="utf-8", newline="\n")


def report(before: Iterable[Finding], after: Iterable[Finding], source: Callable[[Finding], str]) -> Iterator[str]:
    """Rows that show the difference by rule, each finding with its ``source``; none if there is no difference."""
    old, new = Counter(before), Counter(after)
    gone, come = old - new, new - old
    changed = Counter[Finding]()
    changed.update(gone)
    changed.update(come)
    if not changed:
        return
    projects = len({one.project for one in changed})
    yield f"{come.total()} new and {gone.total()} gone in {projects} project{'s' * (projects != 1)}"
    for code, name in sorted({(one.code, one.name) for one in changed}):
        counts = [sum(n for one, n in side.items() if one.code == code) for side in (old, new, come, gone)]
        yield ""
        yield "{} {}: {} before, {} now ({} new, {} gone)".format(code, name, *counts)
        for finding in sorted(one for one in changed if (one.code, one.name) == (code, name)):
            for sign, side in (("-", gone), ("+", come)):
                rest = f"{finding.fix} fix" if finding.fix else "no fix"
                yield from [f"{sign} {finding.project} {finding.place} ({rest})"] * side[finding]
            yield f"    | {source(finding)}"
