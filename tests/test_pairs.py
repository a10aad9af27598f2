"""Every before/after pair and every whole program runs on the CPU, and both sides compute the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch_forks import compute

import torchlint
from torchlint.measure.measure import Sides, Task, measure
from torchlint.measure.pairs import Pair
from validation.pairs import ROOT, find_pairs

SIZE = 0.005
#: What the fixes of several rules may change together, such as the order of sums.
TOLERANCE = 1e-4
PAIRS = find_pairs()
#: Values are compared here, not speed: without this, `torch.compile` needs a C++ tool chain.
EAGER = {"TORCHDYNAMO_DISABLE": "1"}


def small(pair: Pair) -> Task:
    """The pair at a size that a CPU runs within seconds."""
    return Task(pair, "small", min([SIZE, *pair.sizes.get("cpu", {}).values()]), "cpu")


def named(name: str) -> Pair:
    """The pair of a rule or program."""
    return next(pair for pair in PAIRS if pair.name == name)


def test_there_are_pairs() -> None:
    assert {pair.kind for pair in PAIRS} == {"rule", "program"}


def each(pairs: list[Pair]) -> pytest.MarkDecorator:
    """A test of each of these pairs, those of one pair in one process: its before-program runs once."""
    marked = [pytest.param(pair, id=pair.name, marks=pytest.mark.xdist_group(f"pair {pair.name}")) for pair in pairs]
    return pytest.mark.parametrize("pair", marked)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Pair], str]:
    """``before(pair)``: the file with what the before-program of a pair computes."""
    folder = tmp_path_factory.mktemp("before")

    def run(pair: Pair) -> str:
        path = folder / f"{pair.name}.pt"
        if not path.exists():
            compute(pair.folder, pair.sides[0], small(pair).size, str(path), again=True)
        return str(path)

    return run


@each([*PAIRS, Pair("combined", "program", ROOT / "tests" / "programs" / "combined")])
def test_both_sides_compute_the_same(pair: Pair, before: Callable[[Pair], str], tmp_path: Path) -> None:
    result = str(tmp_path / "after.pt")
    found = compute(pair.folder, pair.sides[1], small(pair).size, result, before(pair), again=True)
    assert found["difference"] <= found["tolerance"]


@each(PAIRS)
def test_the_fixes_of_all_rules_keep_what_a_program_computes(
    pair: Pair, before: Callable[[Pair], str], tmp_path: Path
) -> None:
    """Safe fixes keep it exactly, unsafe ones within the tolerance of the program."""
    text = (pair.folder / "before.py").read_text(encoding="utf-8")
    fixed = {name: fix_all(text, unsafe=name == "unsafe") for name in ("safe", "unsafe")}
    known = {text, (pair.folder / "after.py").read_text(encoding="utf-8")}  # what the test above runs
    new = [name for name, of in fixed.items() if of not in known]
    if not new:
        pytest.skip("the fixes give what another test runs")
    for name in new:
        (tmp_path / f"{name}.py").write_text(fixed[name], encoding="utf-8")
        found = compute(tmp_path, name, small(pair).size, str(tmp_path / f"{name}.pt"), before(pair))
        assert found["difference"] <= (0 if name == "safe" else max(found["tolerance"], TOLERANCE)), name


def fix_all(text: str, *, unsafe: bool) -> str:
    """A program after the fixes of all rules."""
    settings = torchlint.load_settings(None, {"select": ["ALL"], "unsafe-fixes": unsafe})
    fixed = torchlint.fix_text(text, "program.py", settings)
    assert not fixed.errors
    return fixed.source.text


@pytest.mark.usefixtures("forked_workers")
def test_a_pair_is_measured_on_the_cpu() -> None:
    measured = measure(Sides(small(named("no-grad-inference")), EAGER), limit=0)
    assert measured.verdict != "differs"
    assert measured.speedup is not None and measured.ci_low is not None and measured.ci_high is not None
    assert 0 < measured.ci_low <= measured.speedup <= measured.ci_high
    assert measured.samples >= 5
    assert set(measured.before) == set(measured.after) >= {"time", "peak memory", "graphs"}


@pytest.mark.usefixtures("forked_workers")
def test_a_rule_about_a_count_is_judged_by_it() -> None:
    measured = measure(Sides(small(named("deprecated-amp-api")), EAGER), limit=0)
    assert measured.verdict == "confirmed"
    assert measured.before["deprecation warnings"] > measured.after["deprecation warnings"] == 0
