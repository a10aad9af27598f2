"""The whole programs of `validation/programs/`: what is wrong with them, what fixes make of that, what they offer."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import torchlint
from torchlint.engine.fixer import Fixed, fix
from torchlint.rule import Diagnostic
from torchlint.source.source import Source

FOLDER = Path(__file__).resolve().parent.parent / "validation" / "programs"

#: What is wrong with each program, as far as there are rules for it that are on by default.
WRONG = {
    "bert_finetuning": {"TL105", "TL114", "TL201", "TL301", "TL401", "TL402"},
    "dcgan": {"TL101", "TL102", "TL201", "TL206", "TL303", "TL304"},
    "detection_evaluation": {"TL101", "TL102", "TL206", "TL303", "TL402", "TL811"},
    "image_classifier": {"TL101", "TL102", "TL201", "TL301", "TL402"},
    "inference_service": {"TL308", "TL401", "TL402", "TL501", "TL506", "TL903"},
    "language_model": {"TL102", "TL201", "TL301", "TL407"},
}
#: What comes to light once other fixes are made: a dataset that leaves the GPU alone can be read by workers, and the
#: copy of a batch need not block once the batch is pinned.
REVEALED = {
    "bert_finetuning": {"TL101", "TL102"},
    "dcgan": {"TL103", "TL204"},
    "detection_evaluation": {"TL204"},
    "image_classifier": {"TL204"},
    "language_model": {"TL204"},
}
#: What no fix is offered for there: some rules only advise; and autocast is on for CUDA alone in the service, which
#: runs on the CPU as well.
ADVISED = {
    "bert_finetuning": {"TL114"},
    "detection_evaluation": {"TL206", "TL811"},
    "inference_service": {"TL308", "TL903"},
}

programs = pytest.mark.parametrize("name", WRONG)


def text_of(name: str, side: str) -> str:
    """One side of a program, with the line endings that it has."""
    return (FOLDER / name / f"{side}.py").read_bytes().decode("utf-8")


def findings(text: str) -> list[Diagnostic]:
    """What the rules that are on by default find."""
    return torchlint.check_text(text, "program.py", torchlint.load_settings(None, {}))


def fixed(text: str) -> Fixed:
    """What comes of all fixes, those that may change results as well."""
    return fix(Source.from_text(text, "program.py"), torchlint.load_settings(None, {"unsafe-fixes": True}))


def test_every_program_is_tested() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/before.py")} == set(WRONG)


@programs
def test_it_is_flagged_for_all_that_is_wrong_with_it_and_for_nothing_else(name: str) -> None:
    assert {item.code for item in findings(text_of(name, "before"))} == WRONG[name]


@programs
def test_after_is_what_the_fixes_make_of_before(name: str) -> None:
    outcome = fixed(text_of(name, "before"))
    assert outcome.errors == ()
    assert outcome.source.text == text_of(name, "after")
    assert {item.code for item in outcome.applied} == (WRONG[name] | REVEALED.get(name, set())) - ADVISED.get(
        name, set()
    )


@programs
def test_no_fix_is_left_to_make(name: str) -> None:
    after = text_of(name, "after")
    assert fixed(after).source.text == after
    assert [item for item in findings(after) if item.fix is not None] == []


@programs
@pytest.mark.parametrize("side", ["before", "after"])
def test_it_offers_what_the_suite_needs(name: str, side: str) -> None:
    body = ast.parse(text_of(name, side)).body
    constants: dict[str, Any] = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id in ("UNIT", "SIZES", "TOLERANCE"):
                constants[statement.targets[0].id] = ast.literal_eval(statement.value)
    assert constants["UNIT"].endswith("s"), "the unit is a plural: images, tokens"
    assert set(constants["SIZES"]) == {"cuda", "cpu"}
    for sizes in constants["SIZES"].values():
        assert sizes
        assert all(label and 0 < size <= 1 for label, size in sizes.items())
    assert 0 < constants["TOLERANCE"] <= 0.1, "the programs compute alike"

    functions = {item.name: item for item in body if isinstance(item, ast.FunctionDef)}
    parameters = {name: [item.arg for item in function.args.args] for name, function in functions.items()}
    assert parameters["prepare"] == ["device", "size"]
    assert len(parameters["work"]) == len(parameters["items"]) == 1
    assert parameters["main"] == []
