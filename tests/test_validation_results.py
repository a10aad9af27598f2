"""The results of the validation suite: their files, when they are stale, the reports made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import little_pairs
import pytest
from little_pairs import MakePair, a_device, result

from torchlint.measure.figures import change_of, metric_change, ratio, seconds
from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement, file_name, load, load_all, save
from validation import report
from validation.pairs import ROOT

make_pair = little_pairs.make_pair


# Files of results


def test_results_come_back_as_they_were_written(make_pair: MakePair, tmp_path: Path) -> None:
    results = a_device(result(make_pair()))
    path = tmp_path / "results" / file_name(results.device)
    save(results, path)
    assert path.name == "nvidia-h200.json"
    assert load(path) == results
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_gpus_come_first_and_of_several_the_one_with_the_most_results(make_pair: MakePair, tmp_path: Path) -> None:
    one, another = result(make_pair()), result(make_pair(), name="another")
    devices = [
        a_device(one, another, name="a CPU", kind="cpu"),
        a_device(one, name="NVIDIA H100"),
        a_device(one, another, name="NVIDIA H200"),
    ]
    for device in devices:
        save(device, tmp_path / file_name(device.device))
    assert [results.device for results in load_all(tmp_path)] == ["NVIDIA H200", "NVIDIA H100", "a CPU"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"device": 1, "environment": {}, "results": [{"name": "a"}]}'])
def test_a_file_that_holds_no_results_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ValueError, match=r"broken\.json is not a file of results"):
        load(tmp_path / "broken.json")


def test_a_result_is_stale_when_a_program_changes(make_pair: MakePair) -> None:
    known = result(make_pair())
    assert not known.stale(make_pair())
    assert known.stale(make_pair(work="x = 1"))
    assert known.stale(None)


def test_a_docstring_and_other_sizes_do_not_make_a_result_stale(tmp_path: Path) -> None:
    def digest(docstring: str, sizes: str) -> str:
        for side in ("before", "after"):
            (tmp_path / f"{side}.py").write_text(f'"""{docstring}"""\nimport torch\n{sizes}\nTOLERANCE = 0.01\n')
        return Pair("little", "rule", tmp_path).digest

    plain = digest("A program.", "SIZES = {}")
    assert digest("A program.\n\nExpected on an NVIDIA H200:\n", 'SIZES = {\n    "cpu": {"one": 1.0},\n}') == plain
    assert digest("A program.", "SIZES = {}\nWIDTH = 3") != plain


def test_line_endings_do_not_make_a_result_stale(make_pair: MakePair) -> None:
    pair = make_pair()
    known = result(pair)
    path = pair.folder / "after.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not known.stale(replace(pair))


# The reports


def test_the_reports_are_those_of_the_results() -> None:
    for path, content in report.files().items():
        assert path.read_text(encoding="utf-8") == content, f"{path} is not up to date: python -m validation.report"
    pages = {path for path in report.files() if path.parent.name in ("rules", "evidence")}
    assert {path for folder in ("rules", "evidence") for path in (ROOT / "docs" / folder).glob("*")} <= pages


def test_figures_read_well() -> None:
    assert seconds(0.0123) == "12.3 ms"
    assert seconds(2.5) == "2.50 s"
    assert ratio(None) == ""
    one = Measurement("one", 1.0, "confirmed", before={"graphs": 9, "time": 1.0}, after={"graphs": 1, "time": 0.5})
    assert metric_change("graphs", one) == "graphs 9 → 1"
    assert metric_change("time", one) == ""
    assert change_of(one, "time", seconds) == "1.00 s → 500 ms"
    assert change_of(one, "peak memory", seconds) == ""
