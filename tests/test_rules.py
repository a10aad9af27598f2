"""Every rule against its cases and its before/after pair, and what all rules have in common."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rule_cases import FIXTURES, Case, read_cases

import torchlint
from torchlint.engine.fixer import fix
from torchlint.rule import HEADINGS, Applicability, Default, Diagnostic, Rule
from torchlint.rule.registry import load_rules
from torchlint.rule.rule import REPORTED
from torchlint.rule.sketch import Sketch
from torchlint.rule.words import Word
from torchlint.settings.settings import Settings
from torchlint.source.source import Source

RULES = load_rules()
REPORTING = [rule for rule in RULES if REPORTED in rule.page().sections]
CASES = [case for rule in RULES for case in read_cases(rule.name)]
FIRING = [case for case in CASES if case.fires]
FIXABLE = [case for case in FIRING if case.kind != "fires, no fix"]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    """A test of each of these cases, those of a rule in one process: what is found and fixed there is kept."""
    marked = [pytest.param(case, id=str(case), marks=pytest.mark.xdist_group(case.rule)) for case in cases]
    return pytest.mark.parametrize("case", marked)


@cache
def settings_for(code: str, unsafe: bool = False) -> Settings:
    """Settings under which one rule runs, whatever its default."""
    overrides: dict[str, Any] = {"select": [code], "unsafe-fixes": unsafe, "target-torch": "2.13"}
    return torchlint.load_settings(None, overrides)


def code_of(name: str) -> str:
    """The code of the rule called ``name``."""
    return next(rule.code for rule in RULES if rule.name == name)


def _has_pair(rule: Rule) -> bool:
    return (FIXTURES / rule.name / "before.py").exists()


@cache
def found_in(text: str, name: str) -> Sequence[Diagnostic]:
    """What the rule called ``name`` finds in ``text``."""
    return tuple(torchlint.check_text(text, "case.py", settings_for(code_of(name))))


@cache
def fixed(text: str, name: str, *, unsafe: bool) -> str:
    """``text`` after the fixes of one rule; an error of the fixer is an error of the test."""
    outcome = fix(Source.from_text(text, "case.py"), settings_for(code_of(name), unsafe))
    assert outcome.errors == ()
    return outcome.source.text


def comments(text: str) -> list[str]:
    """The comments of ``text``, in order."""
    return [
        token.string for token in tokenize.generate_tokens(StringIO(text).readline) if token.type == tokenize.COMMENT
    ]


@each(FIRING)
def test_it_fires_where_the_case_says_and_nowhere_else(case: Case) -> None:
    source = Source.from_text(case.text, "case.py")
    found = [(source.location(item.start)[0], item.code) for item in found_in(case.text, case.rule)]
    assert case.expected, "a firing case marks what is flagged"
    assert found == case.expected, case.title


@each([case for case in CASES if case.kind == "silent"])
def test_it_is_silent_on_a_near_miss(case: Case) -> None:
    assert not case.expected
    assert not found_in(case.text, case.rule), case.title


@each([case for case in FIXABLE if case.fixed])
def test_a_fix_makes_what_the_case_says(case: Case) -> None:
    for applicability, expected in case.fixed.items():
        assert fixed(case.text, case.rule, unsafe=applicability == "unsafe") == expected, case.title


@each([case for case in FIRING if case.kind == "fires, no fix"])
def test_no_fix_is_offered_where_none_is_right(case: Case) -> None:
    found = found_in(case.text, case.rule)
    assert found, case.title
    assert all(item.fix is None for item in found), case.title


@each(FIXABLE)
def test_fixes_settle_parse_and_keep_comments(case: Case) -> None:
    once = fixed(case.text, case.rule, unsafe=True)
    compile(once, "fixed.py", "exec", dont_inherit=True)
    assert fixed(once, case.rule, unsafe=True) == once
    lost = set(comments(case.text)) - set(comments(once))
    if lost:
        safe = fixed(case.text, case.rule, unsafe=False)
        assert not set(comments(case.text)) - set(comments(safe)), "a fix that drops a comment is unsafe"
    kept = [item for item in found_in(once, case.rule) if item.fix is not None]
    assert all(item.fix is not None and item.fix.applicability is Applicability.DISPLAY for item in kept)


@each(FIRING)
def test_texts_name_no_row_and_notes_lie_in_the_file(case: Case) -> None:
    for item in found_in(case.text, case.rule):
        fix = (item.fix.message, item.fix.caution) if item.fix else ()
        for text in (item.message, item.label, *(note.message for note in item.notes), *fix):
            assert not re.search(r"\b(lines?|rows?) \d", text), "a place is data, which each format shows in its way"
        for place in (note.place for note in item.notes if note.place is not None):
            assert 0 <= place.start < place.end <= len(case.text)
            assert not place.path


@each(FIXABLE)
def test_fixes_keep_line_endings(case: Case) -> None:
    windows = case.text.replace("\n", "\r\n")
    assert fixed(windows, case.rule, unsafe=True) == fixed(case.text, case.rule, unsafe=True).replace("\n", "\r\n")


@each(FIRING)
def test_a_screened_out_file_never_fires(case: Case) -> None:
    rule = next(rule for rule in RULES if rule.name == case.rule)
    assert rule.may_concern(case.text) and rule.may_apply(case.text), "the rule's words screen out a file that it flags"
    for alone in (True, False):
        assert rule.may_find(Sketch(case.text, ast.parse(case.text), alone=alone)), "its sketch screens it out"


@each(FIRING)
def test_offsets_hold_beyond_ascii(case: Case) -> None:
    shifted = f"# größer 数据 🚀\n{case.text}"
    before = [item.end - item.start for item in found_in(case.text, case.rule)]
    after = found_in(shifted, case.rule)
    assert [item.end - item.start for item in after] == before
    assert [item.start for item in after] == [
        item.start + len(shifted) - len(case.text) for item in found_in(case.text, case.rule)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_documented_and_shown(rule: Rule) -> None:
    page = rule.page()
    assert page.summary.endswith(".")
    assert len(page.summary) <= 120
    assert tuple(heading for heading in page.sections if heading != REPORTED) == HEADINGS
    assert all(page.sections.values())
    assert "```python" in page.sections["Example"]
    assert "```python" in page.sections["Use instead"]
    assert rule.words, "a rule says which words a file must hold"
    assert isinstance(rule.default, Default)
    module = type(rule).__module__.rpartition(".")[2]
    assert module == rule.name.replace("-", "_"), "the file is named for the rule"


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if REPORTED in rule.page().sections], ids=lambda rule: rule.code
)
def test_figures_of_others_have_device_year_and_source(rule: Rule) -> None:
    for figure in re.split(r"\n(?=- )", rule.page().sections[REPORTED]):
        assert re.fullmatch(r"- .*\d.* \([^()]+, 20\d\d\): \[[^]]+\]\(https://\S+\)", " ".join(figure.split()))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_has_cases_of_both_kinds(rule: Rule) -> None:
    cases = [case for case in CASES if case.rule == rule.name]
    firing = [case for case in cases if case.fires]
    assert len(firing) >= 4
    assert len(cases) - len(firing) >= max(6, len(firing) - 4)
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("rule", [rule for rule in RULES if _has_pair(rule)], ids=lambda rule: rule.code)
def test_the_pair_is_what_the_fix_makes(rule: Rule) -> None:
    before, after = (_pair(rule.name, side) for side in ("before", "after"))
    found = found_in(before, rule.name)
    assert found, "before.py shows the pattern"
    assert not found_in(after, rule.name)
    if any(diagnostic.fix for diagnostic in found):
        assert fixed(before, rule.name, unsafe=True) == after
    else:
        assert "Advice" in rule.page().sections["Fix safety"], "the fix is said to be there, and is not"


def test_a_rule_that_claims_an_effect_has_a_pair_to_show_it() -> None:
    assert [rule.code for rule in RULES if rule.demo and not _has_pair(rule)] == []


def test_rule_codes_and_names_are_in_the_contract() -> None:
    for rule in RULES:
        assert re.fullmatch(r"TL[1-9]\d\d", rule.code)
        assert not rule.name.startswith(("no-use", "use-", "disallow-")), "a name says the pattern, not the remedy"


def test_one_run_fixes_the_six_patterns_in_one_script() -> None:
    programs = Path(__file__).parent / "programs" / "combined"
    before, after = ((programs / f"{side}.py").read_text(encoding="utf-8") for side in ("before", "after"))
    codes = {item.code for item in torchlint.check_text(before, "case.py", torchlint.load_settings(None, {}))}
    assert {"TL105", "TL301", "TL401", "TL402", "TL501"} <= codes
    outcome = fix(Source.from_text(before, "case.py"), torchlint.load_settings(None, {"unsafe-fixes": True}))
    assert outcome.errors == ()
    assert outcome.source.text == after
    assert {item.code for item in outcome.applied} >= {"TL101", "TL102", "TL105", "TL301", "TL401", "TL402", "TL501"}


def test_the_fixes_of_one_loader_make_one_valid_call() -> None:
    text = """\
import torch
from torch.utils.data import DataLoader
from photos import Photos


def main(model, optimizer, device="cuda"):
    loader = DataLoader(Photos("train"), batch_size=64)
    for epoch in range(10):
        for images in loader:
            loss = model(images.to(device)).mean()
            loss.backward()
            optimizer.step()
"""
    wanted = ["TL101", "TL102", "TL103", "TL204"]
    settings = torchlint.load_settings(None, {"select": wanted, "unsafe-fixes": True})
    outcome = fix(Source.from_text(text, "case.py"), settings)
    assert {item.code for item in outcome.applied} == set(wanted)
    assert outcome.diagnostics == []
    assert (
        'DataLoader(Photos("train"), batch_size=64, num_workers=min(8, os.cpu_count() or 1), '
        "pin_memory=torch.cuda.is_available(), persistent_workers=True)"
    ) in outcome.source.text
    assert "images.to(device, non_blocking=True)" in outcome.source.text


def _pair(name: str, side: str) -> str:
    return Path(FIXTURES / name / f"{side}.py").read_bytes().decode("utf-8")


def _plain(part: Word) -> list[str]:
    parts = part if isinstance(part, tuple) else (part,)
    return [one for one in parts if isinstance(one, str)]


_HOSTILE = {
    "statements on one row": "a=1;" * 20_000,
    "one statement in every row": "a = torch.zeros(3)\n" * 20_000,
    "long words": ("a" * 50 + " ") * 20_000,
    "a dictionary on one row": "d = {" + "'k': 12345, " * 40_000 + "}\n",
    "blanks": "a" + " " * 80_000 + "=\n",
    "open brackets": "torch.zeros(" * 10_000,
    "keywords on one row": "x = " + "not " * 60_000 + "1\n",
    "conditions on one row": "x = " + "1 if a else " * 20_000 + "2\n",
    "open imports": "from transformers import (a,\n" * 10_000,
    "loops on one row": "x = [" + "a for b in c for " * 10_000,
    "first items": "y = f(x[0])[0], torch.cat([x, x" * 10_000,
    "unpacked calls": "a, b = self.c[0].d(q, k, v\n" * 10_000,
    "moves of one name": "for y in z:\n" + "    x = x.to(device)\n" * 4_000,
    "moves of new tensors": "for y in z:\n" + "    a = torch.zeros(3)\n    a = a.to(device)\n" * 45_000,
    "elements of many names": "for i in r:\n"
    + "".join(f"    s += float(a{k}[i]) + max(a{k})\n" for k in range(20_000)),
    "functions of one name": "def f(x):\n    for x in f(x[None]): sum(x)\n" * 5_000,
    "constants": "a = [a]\nb = torch.tensor([a, b], device=d)\n" * 4_000,
}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE.keys())
def test_no_text_keeps_the_screen_of_a_rule_busy(text: str) -> None:
    program = (
        "import sys; from torchlint.rule.registry import load_rules; text = sys.stdin.read()\n"
        "from torchlint.rule.sketch import Sketch, SketchError\n"
        "from torchlint.source.parsing import ParseError, python_tree\n"
        "for rule in load_rules(): rule.may_concern(text)\n"
        "try: tree = python_tree(text)\n"
        "except ParseError: sys.exit()\n"
        "for alone in (True, False):\n"
        "    sketch = Sketch(text, tree, alone=alone)\n"
        "    try: [rule.may_find(sketch) for rule in load_rules()]\n"
        "    except SketchError: pass"
    )
    words = " ".join(word for rule in RULES for part in rule.words for word in _plain(part))
    text = f"# {words}\nimport torch\nx.to(1)\n{text}"
    subprocess.run([sys.executable, "-c", program], input=text, text=True, check=True, timeout=120)
