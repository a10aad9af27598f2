"""``python -m benchmarks.ecosystem``: what a change of a rule does to the findings in pinned, public code.

    python -m benchmarks.ecosystem                            # all packages of packages.txt
    python -m benchmarks.ecosystem flair catalyst             # two of them
    python -m benchmarks.ecosystem --clone CHECKOUTS | sh     # clones the labelled repositories
    python -m benchmarks.ecosystem --checkouts CHECKOUTS      # these repositories
    python -m benchmarks.ecosystem --update flair             # writes the findings instead of comparing them

All rules run, each project by itself. pip downloads the packages from PyPI; nothing of a project is imported or run.
The findings are in `packages.txt` and `repositories.txt` of `findings/`. What is new and gone is printed by rule.

Exit status: 0 no difference, 1 a difference, or torchlint failed, 2 the command line, 3 a project cannot be had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ecosystem.findings import Finding, escaped, read, report, write
from benchmarks.ecosystem.projects import (
    LABELS,
    PACKAGES,
    UnavailableError,
    checkout,
    packages,
    repositories,
    unpacked,
)

FINDINGS = Path(__file__).parent / "findings"
_CHECK = (
    *("check", "--isolated", "--select", "ALL", "--no-respect-gitignore", "--timeout", "600"),
    *("--exit-zero", "--quiet", "--output-format", "json", "."),
)


@dataclass
class Run:
    """What a run found in the projects of one file of findings."""

    file: Path
    folders: dict[str, Path] = field(default_factory=dict)  #: of each project that was checked
    findings: list[Finding] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  #: what torchlint printed where it failed

    def check(self, project: str, folder: Path) -> None:
        """Check a project."""
        command = [sys.executable, "-m", "torchlint", *_CHECK]
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
        self.folders[project] = folder
        said = done.stderr.splitlines() or [f"torchlint ended with status {done.returncode}"] * bool(done.returncode)
        self.failures += [escaped(f"{project}: {row}") for row in said]
        found = json.loads(done.stdout or "[]")
        self.findings += [Finding.from_report(project, folder.resolve(), item) for item in found]

    def source(self, finding: Finding) -> str:
        """The row of a finding, as it is shown."""
        if finding.cell:
            return f"row {finding.row} of cell {finding.cell}"
        try:
            rows = (self.folders[finding.project] / finding.path).read_text("utf-8", "replace").splitlines()
            return escaped(rows[finding.row - 1].strip())[:120]
        except (OSError, IndexError):
            return "(no such row)"

    def difference(self) -> Iterator[str]:
        """What is new and gone in the projects that were checked."""
        before = [finding for finding in read(self.file) if finding.project in self.folders]
        return report(before, self.findings, self.source)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help="a package, or OWNER/NAME of a repository")
    parser.add_argument(
        "--checkouts",
        type=Path,
        metavar="FOLDER",
        help="compare the repositories, whose checkouts are in FOLDER/OWNER+NAME",
    )
    parser.add_argument("--clone", type=Path, metavar="FOLDER", help="print the commands that make the checkouts")
    parser.add_argument("--update", action="store_true", help="write the findings")
    options = parser.parse_args()
    pinned, labelled = packages(PACKAGES.read_text(encoding="utf-8")), repositories(LABELS)
    names = [one.name for one in labelled] if options.checkouts or options.clone else [one.name for one in pinned]
    unknown = set(options.projects) - set(names)
    if unknown:
        kind = "repositories" if options.checkouts or options.clone else "packages"
        parser.error(f"not among the pinned {kind}: {', '.join(sorted(unknown))}")
    chosen = set(options.projects or names)
    if options.clone:
        print(*(one.clone(options.clone) for one in labelled if one.name in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="torchlint-ecosystem-") as scratch:
        try:
            if options.checkouts:
                run = Run(FINDINGS / "repositories.txt")
                folders = [(one.name, checkout(one, options.checkouts)) for one in labelled if one.name in chosen]
            else:
                run = Run(FINDINGS / "packages.txt")
                folders = unpacked([one for one in pinned if one.name in chosen], Path(scratch))
        except UnavailableError as error:
            print(f"not compared: {escaped(str(error))}", file=sys.stderr)
            return 3
        for name, folder in folders:
            run.check(name, folder)
        status = _update(run) if options.update else _compare(run)
    print(*run.failures, sep="\n", end="\n" if run.failures else "", file=sys.stderr)
    return 1 if run.failures else status


def _update(run: Run) -> int:
    """Write what was found."""
    write(run.file, run.findings, run.folders)
    print(f"{run.file.name}: {len(run.findings)} findings in {len(run.folders)} projects")
    return 0


def _compare(run: Run) -> int:
    """Print what differs from the committed findings."""
    rows = list(run.difference())
    if not rows:
        print(f"{run.file.name}: the {len(run.findings)} findings in {len(run.folders)} projects are as committed")
        return 0
    print(*rows, "", "If this is intended, run the command again with --update, and commit the findings.", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
