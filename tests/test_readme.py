"""The README says what is true: its output is real, its table is complete."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import RunTorchlint

from torchlint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_output_shown_is_what_the_command_prints(torchlint_in: RunTorchlint) -> None:
    shown = re.search(r"```console\n\$ torchlint (.+)\n((?s:.+?))\n```", README)
    assert shown is not None
    run = torchlint_in(ROOT, *shown.group(1).split(), env={"COLUMNS": "120"})
    assert run.stdout.rstrip() == shown.group(2)
    assert run.returncode == 1


def test_every_rule_is_in_the_table() -> None:
    for rule in load_rules():
        row = f"| {rule.code} | {rule.name} | {rule.default.value} | {rule.page().summary} |"
        assert row in README


def test_the_architecture_names_every_file_of_the_model() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = {path.name for path in (ROOT / "torchlint" / "model").glob("*.py")} - {"__init__.py", "module.py"}
    assert {name for name in files if f"| `{name}` |" not in page} == set()
