"""Counts how many labelled places torchlint finds, and how many findings are right.

    python benchmarks/recall.py LABELS CHECKOUTS [--misses]

LABELS is a folder of files as in `benchmarks/labels/`: the places of one repository at one commit where a default
rule should report, found by reading before torchlint ran. CHECKOUTS holds the repositories, each in a folder
`OWNER+NAME` (a `git clone` at the commit of the label file). Nothing in them is run.

A finding matches a label of the same file and code, the nearest row first: within three rows for a rule about one
expression, within twenty for a rule about a loop. Findings in files that were not labelled are not counted. A finding
that readers of it called right although no label names it counts as right (`extra` in the label file). A label of an
operation counts as found if a finding at its call names the operation in a note, and so does one of the move of a
tensor that is reported where it is created, the reverse, and one of the forward pass of a network that is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Rules that report one place for a whole loop: a reader may name another row of it.
OF_A_LOOP = {"TL111", "TL201", "TL204", "TL301", "TL302", "TL401", "TL402", "TL902", "TL903"}
# How the notes of a finding begin that name another place of it.
_OTHER_PLACES = ("also ", "the operation", "copied to the device", "created on the CPU", "the forward pass")


@dataclass
class Count:
    """What became of the labels and the findings of a group (a rule, or all of them)."""

    found: int = 0
    missed: int = 0
    right: int = 0
    wrong: int = 0
    unread: int = 0

    def add(self, other: Count) -> None:
        """Adds the figures of another group."""
        self.found += other.found
        self.missed += other.missed
        self.right += other.right
        self.wrong += other.wrong
        self.unread += other.unread

    def __str__(self) -> str:
        labels, judged = self.found + self.missed, self.found + self.right + self.wrong
        recall = f"{self.found / labels:4.0%}" if labels else "   -"
        precision = f"{(self.found + self.right) / judged:4.0%}" if judged else "   -"
        return (
            f"recall {recall} ({self.found}/{labels})  precision {precision} ({self.wrong} wrong, {self.unread} unread)"
        )


@dataclass
class Outcome:
    """The counts of a repository, per code, and of the labels that need another file."""

    codes: dict[str, Count] = field(default_factory=dict)
    other_file: Count = field(default_factory=Count)
    one_file: Count = field(default_factory=Count)
    misses: list[dict[str, Any]] = field(default_factory=list)


def findings(checkout: Path) -> list[dict[str, Any]]:
    """The places that torchlint reports in a folder; those of one cause, or operation, are ``joined`` to the first."""
    command = [sys.executable, "-m", "torchlint", "check", "--output-format", "json", "--exit-zero", "."]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    found = []
    for i, one in enumerate(json.loads(done.stdout)):
        here = {"file": str(Path(one["filename"]).relative_to(checkout)), "code": one["code"], "finding": i}
        found.append({**here, "row": one["location"]["row"], "joined": False})
        found += [
            {
                **here,
                "file": str(Path(note["filename"]).relative_to(checkout)),
                "row": note["location"]["row"],
                "joined": True,
            }
            for note in one["notes"]
            if note["message"].startswith(_OTHER_PLACES) and note["location"]
        ]
    return found


def near(code: str) -> int:
    """How many rows a finding of a rule may be away from its label."""
    return 20 if code in OF_A_LOOP else 3


def same_place(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two places (file, row, code) are the same for the rule."""
    alike = bool(one["file"] == other["file"] and one["code"] == other["code"])
    return alike and abs(int(one["row"]) - int(other["row"])) <= near(one["code"])


def compare(labelled: dict[str, Any], found: list[dict[str, Any]]) -> Outcome:
    """The outcome of a repository: labels against findings, one to one, the nearest first."""
    outcome = Outcome()
    pairs = sorted(
        (abs(label["row"] - one["row"]), i, j)
        for i, label in enumerate(labelled["labels"])
        for j, one in enumerate(found)
        if same_place(label, one)
    )
    of_label: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in pairs:
        if i not in of_label and j not in taken:
            of_label[i] = j
            taken.add(j)
    for i, label in enumerate(labelled["labels"]):
        place = outcome.other_file if label["other_file"] else outcome.one_file
        for count in (outcome.codes.setdefault(label["code"], Count()), place):
            count.found += i in of_label
            count.missed += i not in of_label
        if i not in of_label:
            outcome.misses.append(label)
    read = [*labelled.get("extra", []), *({**one, "verdict": "debatable"} for one in labelled.get("doubtful", []))]
    known = {found[j]["finding"] for j in taken}
    for one in found:
        if one["finding"] in known or one["joined"] or one["file"] not in labelled["files"]:
            continue
        count = outcome.codes.setdefault(one["code"], Count())
        verdict = next((other["verdict"] for other in read if same_place(one, other)), "unread")
        if any(same_place(one, label) for label in labelled["labels"]):
            verdict = "again"
        count.right += verdict == "right"
        count.wrong += verdict == "wrong"
        count.unread += verdict == "unread"
        if verdict == "unread":
            outcome.misses.append({**one, "why": "a finding that nobody has read", "other_file": False})
    return outcome


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--misses", action="store_true", help="list labels not found and the findings nobody has read")
    options = parser.parse_args()
    codes: dict[str, Count] = {}
    one_file, other_file = Count(), Count()
    absent: Counter[str] = Counter()
    for path in sorted(options.labels.glob("*.json")):
        checkout = (options.checkouts / path.stem).resolve()
        if not checkout.is_dir():
            absent[path.stem] += 1
            continue
        labelled = json.loads(path.read_text(encoding="utf-8"))
        outcome = compare(labelled, findings(checkout))
        for code, count in outcome.codes.items():
            codes.setdefault(code, Count()).add(count)
        one_file.add(outcome.one_file)
        other_file.add(outcome.other_file)
        for miss in outcome.misses if options.misses else []:
            print(f"{path.stem} {miss['file']}:{miss['row']} {miss['code']}: {miss['why']}")
    whole = Count()
    for code in sorted(codes):
        print(f"{code}       {codes[code]}")
        whole.add(codes[code])
    print(f"all         {whole}")
    for name, count in (("one file", one_file), ("other file", other_file)):
        labels = count.found + count.missed
        print(f"{name:11} recall {count.found / max(labels, 1):4.0%} ({count.found}/{labels})")
    if absent:
        print(f"no checkout of: {', '.join(absent)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
