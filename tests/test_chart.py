"""The chart of a device, and the page with its tables."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from torchlint.measure.expectation import Expectation
from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement, PairResult, Results
from torchlint.rule.evidence import evidence_of
from torchlint.rule.registry import load_rules
from validation.chart import EDGE, HIGH, LOW, WIDTH, Bar, svg
from validation.document import chart, document
from validation.pairs import find_pairs

PAIRS = {pair.name: pair for pair in find_pairs()}
RULES = load_rules()


def drawn(*bars: Bar, note: str = "") -> ElementTree.Element:
    """A chart with one group."""
    return ElementTree.fromstring(svg("title", [("group", bars)], note))


def all_of(picture: ElementTree.Element, tag: str, kind: str = "") -> list[ElementTree.Element]:
    """The elements with a tag, and with a class if one is given."""
    found = picture.iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [one for one in found if kind in one.attrib.get("class", "")]


def texts(picture: ElementTree.Element) -> list[str]:
    """The texts in order, without the legend."""
    return ["".join(text.itertext()) for text in all_of(picture, "text")]


def markers(picture: ElementTree.Element) -> list[ElementTree.Element]:
    """The markers of the rows: the first three are the legend's."""
    return [one for one in picture.iter() if "marker" in one.attrib.get("class", "")][3:]


def place(ratio: float) -> float:
    """Where a ratio is on the axis."""
    return EDGE + (WIDTH - 2 * EDGE) * math.log(ratio / LOW) / math.log(HIGH / LOW)


def one(verdict: str, speedup: float, low: float, high: float, name: str = "one") -> Bar:
    """A bar with a figure."""
    return Bar(name, "a size", verdict, speedup, low, high)


def test_a_ratio_has_the_same_place_in_every_chart() -> None:
    alone = markers(drawn(one("confirmed", 2.0, 1.9, 2.1)))
    with_others = markers(drawn(one("confirmed", 1106.0, 988, 1154), one("confirmed", 2.0, 1.9, 2.1)))
    assert float(alone[0].attrib["cx"]) == float(with_others[1].attrib["cx"]) == pytest.approx(place(2.0), abs=0.1)


@pytest.mark.parametrize(("ratio", "edge", "figure"), [(1106.0, HIGH, "1106x"), (0.6, LOW, "0.60x")])
def test_a_ratio_outside_the_axis_is_at_the_edge_with_an_arrow_and_its_figure(
    ratio: float, edge: float, figure: str
) -> None:
    inside, outside = drawn(one("confirmed", 2.0, 1.9, 2.1)), drawn(one("confirmed", ratio, ratio * 0.9, ratio * 1.1))
    assert float(markers(outside)[0].attrib["cx"]) == pytest.approx(place(edge), abs=0.1)
    assert len(all_of(outside, "path", "arrow")) == len(all_of(inside, "path", "arrow")) + 1
    assert figure in texts(outside)
    assert all_of(outside, "path", "interval") == []


def test_an_interval_that_leaves_the_axis_has_an_arrow_in_place_of_the_cap() -> None:
    (inside,) = all_of(drawn(one("confirmed", 4.0, 3.8, 4.2)), "path", "interval")
    picture = drawn(one("confirmed", 4.8, 4.5, 5.3))
    (outside,) = all_of(picture, "path", "interval")
    assert (inside.attrib["d"].count("v"), outside.attrib["d"].count("v")) == (2, 1)
    assert "4.8x" not in texts(picture)


def test_the_caps_are_larger_than_the_marker() -> None:
    picture = drawn(one("confirmed", 1.05, 1.049, 1.051))
    (interval,) = all_of(picture, "path", "interval")
    cap = float(interval.attrib["d"].rpartition("v")[2])
    assert cap > 2 * float(markers(picture)[0].attrib["r"])


def test_verdicts_differ_in_shape() -> None:
    bars = (one("confirmed", 2, 1.9, 2.1), one("no effect", 1, 0.99, 1.01), one("slower", 0.9, 0.89, 0.91))
    shapes = [(shape.tag.rpartition("}")[2], shape.attrib["class"].split()[-1]) for shape in markers(drawn(*bars))]
    assert shapes == [("circle", "confirmed"), ("circle", "none"), ("path", "slower")]


def test_the_largest_ratio_is_first_and_rows_without_a_figure_are_last() -> None:
    bars = (Bar("unknown", "", "not measured"), one("confirmed", 1.2, 1.1, 1.3, "small"), one("slower", 0.9, 0.8, 0.95))
    names = texts(drawn(*bars, one("confirmed", 3.0, 2.9, 3.1, "large")))
    places = [next(index for index, text in enumerate(names) if text.startswith(name)) for name in ("large", "small")]
    places += [next(index for index, text in enumerate(names) if text.startswith(name)) for name in ("one", "unknown")]
    assert places == sorted(places)
    assert "\u2013 not measured" in " ".join(names)


def test_what_is_judged_by_a_count_is_not_on_the_axis() -> None:
    picture = drawn(Bar("TL303 a & b", "163 rows", "confirmed", 1.02, 1.01, 1.04, "deprecation warnings 9 → 0"))
    assert markers(picture) == []
    assert "deprecation warnings 9 → 0 confirmed" in texts(picture)
    assert not any("1.02" in text for text in texts(picture))


# Of results


def result(pair: Pair, **changes: Any) -> PairResult:
    """A result of a pair as it is, but for some fields of its one measurement."""
    label = next(iter(pair.sizes["cuda"]))
    facts = {"speedup": 2.0, "ci_low": 1.9, "ci_high": 2.1, "verdict": "confirmed", **changes}
    digest = facts.pop("digest", pair.digest)
    sides = {"before": {"time": 2.0}, "after": {"time": 1.0}}
    measured = Measurement(**{"label": label, "size": 1.0, **sides, **facts})
    return PairResult(pair.name, pair.kind, pair.metric, pair.unit, digest, "code", "2.11.0", "2026-01-31", (measured,))


def a_device(*results: PairResult, name: str = "NVIDIA H200", kind: str = "cuda") -> Results:
    """The results of one device."""
    facts = {"type": kind, "torch": "2.11.0", "cpu": "a CPU", "cores": "16", "python": "3.12", "system": "Linux"}
    facts |= {"cuda": "13.0", "driver": "580"} if kind == "cuda" else {}
    return Results(name, facts, {one.name: one for one in results})


def control() -> PairResult:
    """A program measured against itself."""
    plain = result(PAIRS["missing-no-grad"], speedup=1.001, ci_low=0.99, ci_high=1.01, verdict="no effect")
    return replace(plain, name="missing-no-grad against itself", kind="control")


def test_a_chart_has_a_row_for_every_result_and_the_number_of_those_missing() -> None:
    counted = result(PAIRS["deprecated-amp-api"], before={"deprecation warnings": 9}, after={"deprecation warnings": 0})
    slower = result(PAIRS["missing-eval"], verdict="slower", speedup=0.9, ci_low=0.85, ci_high=0.95)
    picture = ElementTree.fromstring(chart(RULES, a_device(slower, counted), PAIRS))
    said = texts(picture)
    assert any("NVIDIA H200" in text for text in said)
    assert any("missing-eval" in text for text in said)
    assert said.index("Rules") < said.index("Judged by a count") < said.index("deprecation warnings 9 → 0 confirmed")
    assert len(markers(picture)) == 1
    shown = {rule.name for rule in RULES if rule.name in PAIRS} | {n for n, p in PAIRS.items() if p.kind == "program"}
    assert f"{len(shown) - 2} of {len(shown)} pairs were not measured on this device" in said


def test_a_stale_result_is_called_stale_in_every_report() -> None:
    names = ("missing-eval", "language_model")
    measured = a_device(*(result(PAIRS[name], digest="another") for name in names))
    (evidence,) = evidence_of("missing-eval", [measured], PAIRS)
    assert evidence.stale
    page = document(RULES, [measured], PAIRS)
    assert "| stale (confirmed) |" in page
    assert page.count("| stale |") == 1
    picture = ElementTree.fromstring(chart(RULES, measured, PAIRS))
    assert markers(picture) == []
    assert any(text.endswith("stale") for text in texts(picture)[6:])


def test_the_page_compares_the_claims_with_gpus_only() -> None:
    measured = a_device(result(PAIRS["single-process-dataloader"]))
    page = document(RULES, [measured], PAIRS)
    assert "| 3.7x | 2.0x [1.90, 2.1], single-process-dataloader, NVIDIA H200, torch 2.11 |" in page
    assert "no measurements on a GPU yet" not in page
    on_cpu = a_device(result(PAIRS["single-process-dataloader"]), name="a CPU", kind="cpu")
    page = document(RULES, [on_cpu], PAIRS)
    assert "| 3.7x | not measured yet |" in page
    assert "no measurements on a GPU yet" in page


def test_the_page_names_what_was_not_measured() -> None:
    page = document(RULES, [a_device(result(PAIRS["missing-eval"]))], PAIRS)
    (line,) = [line for line in page.splitlines() if line.startswith("Not measured on this device: ")]
    missing = {name.split()[-1] for name in line.rstrip(".").partition(": ")[2].split(", ")}
    assert {"missing-no-grad", "language_model"} <= missing
    assert "missing-eval" not in missing


def test_controls_have_a_table_of_their_own() -> None:
    measured = a_device(control(), result(PAIRS["missing-eval"]))
    section = document(RULES, [measured], PAIRS).partition("### Controls")[2]
    assert f"| missing-no-grad against itself | {control().main.label} | 1.00x [0.99, 1.01] |" in section
    assert "against itself" not in chart(RULES, measured, PAIRS)
    assert list(evidence_of("missing-no-grad", [measured], PAIRS)) == []
    assert "### Controls" not in document(RULES, [a_device(result(PAIRS["missing-eval"]))], PAIRS)


#: The pairs with the same prediction for each.
ONE = Expectation(low=1.1, high=1.4, run_s=1.0, start_s=1.0, reason="a third of the step is copies")
PREDICTED = {
    name: replace(pair, expected=dict.fromkeys(pair.sizes.get("cuda", {}), ONE)) for name, pair in PAIRS.items()
}


def test_a_measurement_outside_its_prediction_is_marked_and_listed() -> None:
    right = result(PAIRS["missing-eval"], speedup=1.2, ci_low=1.15, ci_high=1.25)
    old = result(PAIRS["missing-no-grad"], digest="another")
    wrong, program = result(PAIRS["single-process-dataloader"]), result(PAIRS["language_model"])
    page = document(RULES, [a_device(right, wrong, program, old)], PREDICTED)
    rows = {name: line for line in page.splitlines() for name in PAIRS if line.startswith("|") and f"{name} |" in line}
    assert "| 1.1x to 1.4x |" in rows["missing-eval"]
    assert "| 1.1x to 1.4x |" in rows["missing-no-grad"]
    assert "| **1.1x to 1.4x (wrong)** |" in rows["single-process-dataloader"]
    assert "| **1.1x to 1.4x (wrong)** |" in rows["language_model"]
    listed = page.partition("### Wrong predictions\n\n")[2].partition("\n\n")[0].splitlines()
    assert [line.partition(",")[0] for line in listed] == ["- language_model", "- TL101 single-process-dataloader"]
    expected = "expected 1.1x to 1.4x (a third of the step is copies); measured 2.0x [1.90, 2.1]."
    assert all(line.endswith(expected) for line in listed)


def test_predictions_that_hold_leave_the_list_empty() -> None:
    right = result(PAIRS["missing-eval"], speedup=1.2, ci_low=1.15, ci_high=1.25)
    page = document(RULES, [a_device(right)], PREDICTED)
    assert "### Wrong predictions\n\nNone: each measured speed-up is within its prediction." in page


def test_a_device_without_predictions_has_no_column_for_them() -> None:
    other = a_device(result(PAIRS["missing-eval"]), name="NVIDIA A100")
    page = document(RULES, [other], PREDICTED)
    assert "expected" not in page
    assert "Wrong predictions" not in page


def test_every_row_of_a_table_has_the_columns_of_its_head() -> None:
    measured = a_device(result(PAIRS["missing-eval"]), result(PAIRS["language_model"]), control())
    for device in ("NVIDIA A100", "NVIDIA H200"):
        columns = 0
        for line in document(RULES, [replace(measured, device=device)], PREDICTED).splitlines():
            columns = (columns or line.count("|")) if line.startswith("|") else 0
            assert not line.startswith("|") or line.count("|") == columns
