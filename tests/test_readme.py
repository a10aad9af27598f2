"""The README and the other handwritten pages are true: outputs, links, tables and file lists match the code."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools import docs, samples, screenshot
from torchlint.measure.figures import interval, ratio
from torchlint.measure.results import load
from torchlint.output.pages import fix_kind
from torchlint.rule.evidence import benchmark
from torchlint.rule.registry import load_rules
from validation.pairs import find_pairs

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
UPDATE = "run `python -m tools.docs --update`"


# Sample outputs


@pytest.mark.parametrize("page", [page for page in samples.SCENES if page != "docs/ci.md"])  # that has tests of its own
def test_samples_show_what_the_commands_print(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == samples.refreshed(page), UPDATE


def test_the_screenshot_shows_what_its_command_prints() -> None:
    text = screenshot.text_of(screenshot.PATH.read_text(encoding="utf-8"))
    assert text == screenshot.expected_text(), UPDATE
    assert re.search(r"^examples/data\.py:\d+:\d+: TL101 ", text, re.MULTILINE)
    assert re.search(r"note: .* examples/engine\.py:\d+$", text, re.MULTILINE), "evidence in another file"


def test_the_screenshot_has_colours_and_loads_nothing() -> None:
    picture = screenshot.PATH.read_text(encoding="utf-8")
    assert ET.fromstring(picture).tag.endswith("svg")
    assert len(set(re.findall(r"fill: (#\w{6})", picture))) >= 4
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_both_start_pages_show_the_screenshot() -> None:
    assert "](docs/assets/screenshot.svg)" in README
    assert "](assets/screenshot.svg)" in START


def test_a_sample_with_another_output_is_out_of_date(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("shown\n", encoding="utf-8")
    assert docs.is_current(file, "shown\n")
    assert not docs.is_current(file, "printed\n")
    assert not docs.is_current(tmp_path / "missing.md", "shown\n")


# The table of rules


def table_of(page: str) -> list[list[str]]:
    """The rows of the table of rules: rule, pattern, cost, fix."""
    rows = re.findall(r"^\| (\[TL\d{3}\].*) \|$", page, re.MULTILINE)
    return [row.split(" | ") for row in rows]


def test_the_table_has_six_rules_that_run_by_default() -> None:
    rules = {rule.code: rule for rule in load_rules()}
    rows = table_of(README)
    assert len(rows) == 6
    for link, _, _, fix in rows:
        match = re.fullmatch(r"\[(TL\d{3})\]\(docs/rules/\1\.md\)", link)
        assert match is not None
        rule = rules[match[1]]
        assert rule.default.value == "on"
        assert set(re.findall(r"\b(?:un)?safe\b", fix)) <= set(fix_kind(rule).split("/"))


def test_the_site_has_the_same_table() -> None:
    assert table_of(README.replace("docs/rules/", "rules/")) == table_of(START)


# Figures


def test_no_page_states_a_number_of_rules() -> None:
    """Adding a rule changes ``rules/`` and ``fixtures/``: a handwritten page need not change with it."""
    handwritten = [path for path in (ROOT / "docs").glob("*.md") if path.name not in ("evidence.md", "settings.md")]
    for path in (ROOT / "README.md", *handwritten):
        text = path.read_text(encoding="utf-8").replace("more than 900", "")
        assert str(len(load_rules())) not in re.findall(r"\b(\d+) (?:\w+ )?rules\b", text), path


def test_no_speed_up_of_a_gpu_is_claimed_before_it_is_measured() -> None:
    measured = any(benchmark(rule.name) for rule in load_rules())
    for page in (README, START):
        assert ("There are no measurements on a GPU yet" in " ".join(page.split())) is not measured
        assert measured or not re.search(r"\d(?:\.\d+)?x\b", page)


def test_the_speed_ups_in_the_readme_are_the_measured_ones() -> None:
    """Each row of the table is a whole program on the GPU: throughput and interval."""
    known = load(ROOT / "validation" / "results" / "nvidia-h200.json").results
    pairs = {pair.name: pair for pair in find_pairs() if pair.kind == "program"}
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+ → [\d,]+ \w+/s) \| (\d[^|]+) \|$", README, re.MULTILINE)
    confirmed = [known[name] for name in pairs if known[name].main.verdict == "confirmed"]
    assert not any(one.stale(pairs[one.name]) for one in confirmed)
    expected = [
        (
            " → ".join(f"{side['items'] / side['time']:,.0f}" for side in (one.before, one.after))
            + f" {result.unit}/s",
            f"{ratio(one.speedup)} {interval(one.ci_low, one.ci_high)}",
        )
        for result in confirmed
        for one in (result.main,)
    ]
    assert sorted(rows) == sorted(expected)


# Links and files


def test_links_lead_somewhere() -> None:
    for page in (README, *((ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "SECURITY.md"))):
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", page)
        assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_architecture_names_every_file_of_the_model() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    model = ROOT / "torchlint" / "model"
    files = [path.relative_to(model).as_posix() for path in model.glob("*/*.py")]
    assert [file for file in files if not file.endswith("/__init__.py") and f"`{file}`" not in page] == []
