"""The README says what is true: its output is real, its figures and links hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import RunTorchlint

from torchlint.output.pages import fix_kind
from torchlint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_output_shown_is_what_the_command_prints(torchlint_in: RunTorchlint) -> None:
    shown = re.search(r"```console\n\$ torchlint (.+)\n((?s:.+?))\n```", README)
    assert shown is not None
    run = torchlint_in(ROOT, *shown.group(1).split(), env={"COLUMNS": "120"})
    assert run.stdout.rstrip() == shown.group(2)
    assert run.returncode == 1


@pytest.mark.parametrize("page", ["README.md", "docs/peers.md"])
def test_the_number_of_rules_is_told_right(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    numbers = re.findall(r"\b(\d+) rules\b|PyTorch performance rules \| (\d+)", text)
    assert numbers
    assert {int(one or other) for one, other in numbers} == {len(load_rules())}


def test_the_number_of_fixes_is_told_right() -> None:
    text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    fixed = [rule for rule in load_rules() if fix_kind(rule) != "none"]
    assert f"| fixes | {len(fixed)} of the {len(load_rules())} rules |" in text


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_architecture_names_every_file_of_the_model() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = {path.name for path in (ROOT / "torchlint" / "model").rglob("*.py")} - {"__init__.py", "module.py"}
    assert {name for name in files if f"| `{name}` |" not in page} == set()
