"""The validation suite: programs that fail, files of results, the command line, the reports."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torchlint.registry import load_rules
from validation import __main__ as command_line
from validation import campaign, report, worker
from validation import measure as measuring
from validation.chart import LEFT, RIGHT, WIDTH
from validation.document import chart, document
from validation.measure import Sides, Task, measure
from validation.pairs import ROOT, Pair, find_pairs
from validation.results import Measurement, Result, Results, file_name, load, save
from validation.table import change_of, metric_change, ratio, seconds

PROGRAM = """\
import os, signal, sys, time
import torch
{head}
TOLERANCE = 0.01
def prepare(device, size=1.0):
    {prepare}
    return size
def work(state):
    {work}
    return {result}
"""

MakePair = Callable[..., Pair]


@pytest.fixture
def make_pair(tmp_path: Path) -> MakePair:
    """Makes a pair of little programs; what is given applies to the after side."""

    def make(**parts: str) -> Pair:
        plain = {"head": "", "prepare": "pass", "work": "pass", "result": "[state, 2 * state]"}
        (tmp_path / "before.py").write_text(PROGRAM.format(**plain))
        (tmp_path / "after.py").write_text(PROGRAM.format(**{**plain, **parts}))
        return Pair("little", "rule", tmp_path, sizes={"cpu": {"one": 1.0}})

    return make


def measured(pair: Pair) -> Measurement:
    """A pair measured as briefly as can be."""
    return measure(Sides(Task(pair, "one", 1.0, "cpu")), limit=0)


@pytest.mark.parametrize(
    ("parts", "verdict", "reason"),
    [
        (
            {"head": "import nothing_of_that_name"},
            "not measured",
            "after: ModuleNotFoundError: No module named 'nothing",
        ),
        ({"prepare": "raise RuntimeError('no data')"}, "not measured", "after: RuntimeError: no data"),
        ({"work": "raise MemoryError"}, "not measured", "after: out of memory"),
        ({"work": "raise torch.OutOfMemoryError('CUDA out of memory. Tried')"}, "not measured", "after: out of memory"),
        (
            {"work": "os.kill(os.getpid(), signal.SIGKILL)"},
            "not measured",
            "after: killed by signal 9 (out of memory?)",
        ),
        ({"work": "sys.exit()"}, "not measured", "after: ended with status 0"),
        ({"work": "time.sleep(60)"}, "not measured", "after: no answer within 10 s"),
        ({"result": "[state, 3 * state]"}, "differs", "the results are 0.5 apart, 0.01 is allowed"),
        ({"result": "[state]"}, "differs", "the results are inf apart, 0.01 is allowed"),
        ({"result": "[state, float('nan')]"}, "differs", "the results are inf apart, 0.01 is allowed"),
    ],
)
def test_what_goes_wrong_in_a_program_is_recorded(
    parts: dict[str, str], verdict: str, reason: str, make_pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "HANG_S", 10.0)
    found = measured(make_pair(**parts))
    assert found.verdict == verdict
    assert found.reason.startswith(reason)
    assert found.speedup is None
    json.dumps(found.difference, allow_nan=False)


def test_what_a_program_prints_disturbs_nothing(make_pair: MakePair) -> None:
    found = measured(make_pair(work="print('{}', flush=True); sys.stdout.write('half a line')"))
    assert found.speedup is not None
    assert found.difference == 0


def test_first_runs_are_taken_in_fresh_processes(make_pair: MakePair, tmp_path: Path) -> None:
    pair = make_pair(prepare=f"open({str(tmp_path / 'log')!r}, 'a').write(str(os.getpid()) + ' ')")
    found = measured(replace(pair, metric="first run"))
    assert found.samples == measuring.LEAST_SAMPLES
    assert len(set((tmp_path / "log").read_text().split())) == found.samples


#: Stands in for a GPU: what the suite asks of `torch.cuda`, and a program that waits for it at every run.
STAND_IN = """
import warnings
modes = ["default"]
torch.cuda.synchronize = lambda: None
torch.cuda.reset_peak_memory_stats = lambda: None
torch.cuda.max_memory_allocated = lambda: 4096
torch.cuda.set_sync_debug_mode = modes.append
def wait():
    if modes[-1] == "warn":
        warnings.warn("called a synchronizing CUDA operation")
"""


def test_on_cuda_synchronizations_are_counted_in_one_run(tmp_path: Path) -> None:
    for side, waits in (("before", 3), ("after", 1)):
        parts = {"head": STAND_IN, "prepare": "pass", "work": f"[wait() for _ in range({waits})]", "result": "state"}
        (tmp_path / f"{side}.py").write_text(PROGRAM.format(**parts))
    pair = Pair("little", "rule", tmp_path, "host synchronizations", sizes={"cuda": {"one": 1.0}})
    found = measure(Sides(Task(pair, "one", 1.0, "cuda")), limit=0)
    assert found.verdict == "confirmed"
    assert (found.before["host synchronizations"], found.after["host synchronizations"]) == (3, 1)
    assert found.before["peak memory"] == 4096


def test_a_warning_is_counted_each_time() -> None:
    with worker.counting_warnings() as caught:
        for _ in range(3):
            warnings.warn("old", FutureWarning, stacklevel=1)
    assert len(caught) == 3


def test_results_of_any_shape_are_compared() -> None:
    nested = {"loss": [torch.ones(2, 2, requires_grad=True), 3], "right": (True, 0.5)}
    assert worker.numbers(nested).tolist() == [1, 1, 1, 1, 3, 1, 0.5]
    assert worker.numbers([]).shape == (0,)
    assert worker.difference(torch.tensor([100.0, 1.0]), torch.tensor([100.0, 2.0])) == 0.01
    assert worker.difference(torch.zeros(2), torch.zeros(2)) == 0
    assert worker.difference(torch.zeros(2), torch.zeros(3)) == float("inf")


# Files of results


def result(pair: Pair, **changes: object) -> Result:
    """A result of a pair as it is, but for some fields."""
    one = Measurement("one", 1.0, "confirmed", "", 2.0, 1.9, 2.1, 8, 0.0, 0.01, {"time": 2.0}, {"time": 1.0})
    plain = Result(pair.name, pair.kind, pair.metric, pair.unit, pair.digest, "2.11.0", "2026-01-31", (one,))
    return replace(plain, **changes)  # type: ignore[arg-type]


def a_device(*results: Result, name: str = "NVIDIA H200", kind: str = "cuda") -> Results:
    """What was measured on one device."""
    facts = {"type": kind, "torch": "2.11.0", "cpu": "a CPU", "cores": "16", "python": "3.12", "system": "Linux"}
    facts |= {"cuda": "13.0", "driver": "580"} if kind == "cuda" else {}
    return Results(name, facts, {one.name: one for one in results})


def test_results_come_back_as_they_were_written(make_pair: MakePair, tmp_path: Path) -> None:
    results = a_device(result(make_pair()))
    path = tmp_path / "results" / file_name(results.device)
    save(results, path)
    assert path.name == "nvidia-h200.json"
    assert load(path) == results
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"device": 1, "environment": {}, "results": [{"name": "a"}]}'])
def test_a_file_that_holds_no_results_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ValueError, match=r"broken\.json holds no results"):
        load(tmp_path / "broken.json")


def test_a_result_is_stale_when_a_program_changes(make_pair: MakePair) -> None:
    known = result(make_pair())
    assert not known.stale(make_pair())
    assert known.stale(make_pair(work="x = 1"))
    assert known.stale(None)


def test_line_endings_do_not_make_a_result_stale(make_pair: MakePair) -> None:
    pair = make_pair()
    known = result(pair)
    path = pair.folder / "after.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not known.stale(replace(pair))


# The command line


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Nothing is run: every pair is twice as quick. The list tells what would have been measured."""
    asked: list[tuple[str, float]] = []

    class NoSides:
        def __init__(self, task: Task) -> None:
            self.task = task

        def stop(self) -> None:
            pass

    def twice(sides: NoSides, limit: float) -> Measurement:
        asked.append((sides.task.pair.name, sides.task.size))
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, 8)

    monkeypatch.setattr(campaign, "Sides", NoSides)
    monkeypatch.setattr(campaign, "measure", twice)
    return asked


def test_every_pair_of_the_device_is_measured_once(quick: list[tuple[str, float]], tmp_path: Path) -> None:
    output = tmp_path / "cpu.json"
    assert command_line.main(["--device", "cpu", "--output", str(output)]) == 0
    expected = {(pair.name, size) for pair in find_pairs() for size in pair.sizes.get("cpu", {}).values()}
    assert set(quick) == expected
    assert len(quick) == len(expected)
    known = load(output).results
    assert set(known) == {name for name, _ in expected}
    for pair in find_pairs():
        if pair.name in known:
            assert [one.label for one in known[pair.name].measurements] == list(pair.sizes["cpu"])


def test_resuming_measures_what_is_missing_or_stale(quick: list[tuple[str, float]], tmp_path: Path) -> None:
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval", "missing-no-grad"]
    assert command_line.main(arguments[:-1]) == 0
    assert command_line.main([*arguments, "--resume"]) == 0
    assert [name for name, _ in quick] == ["missing-eval", "missing-no-grad"]
    results = load(output)
    changed = replace(results.results["missing-eval"], digest="another")
    save(replace(results, results={**results.results, "missing-eval": changed}), output)
    assert command_line.main([*arguments, "--resume"]) == 0
    assert [name for name, _ in quick] == ["missing-eval", "missing-no-grad", "missing-eval"]
    assert not load(output).results["missing-eval"].stale(next(p for p in find_pairs() if p.name == "missing-eval"))


def test_a_budget_that_is_used_up_leaves_the_rest(
    quick: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["--device", "cpu", "--output", str(tmp_path / "cpu.json"), "--budget", "1"]) == 1
    assert quick == []
    assert "go on with --resume" in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_it_measured(
    quick: list[tuple[str, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice: Callable[[Sides, float], Measurement] = vars(campaign)["measure"]

    def interrupted(sides: Sides, limit: float) -> Measurement:
        if quick:
            raise KeyboardInterrupt
        return twice(sides, limit)

    monkeypatch.setattr(campaign, "measure", interrupted)
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval", "missing-no-grad"]
    assert command_line.main(arguments) == 130
    assert "go on with --resume" in capsys.readouterr().err
    assert set(load(output).results) == {"missing-eval"}


def test_other_sizes_do_not_overwrite_the_results(
    quick: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["--device", "cpu", "--sizes", "0.02"]) == 2
    assert "add --output FILE" in capsys.readouterr().err
    arguments = [
        "--device",
        "cpu",
        "--sizes",
        "0.02",
        "0.5",
        "--rules",
        "missing-eval",
        "--output",
        str(tmp_path / "x.json"),
    ]
    assert command_line.main(arguments) == 0
    assert quick == [("missing-eval", 0.02), ("missing-eval", 0.5)]


def test_the_list_measures_nothing_and_tells_what_is_stale(
    quick: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    output = tmp_path / "cpu.json"
    pair = next(pair for pair in find_pairs() if pair.name == "missing-eval")
    one = Measurement(next(iter(pair.sizes["cpu"])), 0.1, "confirmed", "", 2.0, 1.9, 2.1, 8)
    save(a_device(result(pair, digest="another", measurements=(one,)), name="a CPU", kind="cpu"), output)
    assert command_line.main(["--device", "cpu", "--output", str(output), "--list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert quick == []
    assert any("missing-eval" in row and "2.0x [1.90, 2.1]" in row and "stale" in row for row in rows)
    assert any("missing-no-grad" in row and "not measured" in row for row in rows)
    assert any(row.startswith("Nothing to show on this device") and "unpinned-dataloader" in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rules", "mising-eval"], "there is no pair 'mising-eval'; did you mean missing-eval?"),
        (["--output", str(ROOT / "README.md"), "--list"], "README.md holds no results"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["--device", "cpu", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("validation: ")
    assert message in line


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--device", "cuda"]) == 2
    assert "sees no CUDA device; run with --device cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ("METRIC = 'luck'\nSIZES = {'cpu': {'one': 1.0}}", "METRIC is 'luck'"),
        ("SIZES = {}", None),
        ("SIZES = {'tpu': {'one': 1.0}}", "SIZES must say what to measure"),
        ("SIZES = {'cpu': {}}", "SIZES must say what to measure"),
        ("", "SIZES must say what to measure"),
    ],
)
def test_a_program_that_does_not_say_what_to_measure_is_named(
    constants: str, message: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "validation" / "programs" / "little"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text(constants)
    if message is None:
        assert find_pairs(tmp_path)[0].sizes == {}
        return
    with pytest.raises(ValueError, match=message) as raised:
        find_pairs(tmp_path)
    assert "little" in str(raised.value)


def test_it_measures_where_the_linter_is_not_installed(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['libcst'] = sys.modules['torchlint'] = None"
    listing = f"sys.argv[1:] = ['--device', 'cpu', '--list', '--output', {str(tmp_path / 'x.json')!r}]"
    code = f"{hide}; import validation.worker; from validation.__main__ import main; {listing}; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "missing-eval" in done.stdout


# The reports


def test_the_reports_are_those_of_the_results() -> None:
    for path, content in report.files().items():
        assert path.read_text(encoding="utf-8") == content, f"{path} is not up to date: python -m validation.report"
    pages = {path for path in report.files() if path.parent.name in ("rules", "evidence")}
    assert {path for folder in ("rules", "evidence") for path in (ROOT / "docs" / folder).glob("*")} <= pages


def test_a_stale_result_is_told_as_such_in_every_report() -> None:
    pairs = {pair.name: pair for pair in find_pairs()}
    pair = pairs["missing-eval"]
    measured = a_device(result(pair, digest="another"), result(pairs["language_model"], digest="another"))
    (evidence,) = report.evidence_of("missing-eval", [measured], pairs)
    assert evidence.stale
    rules = load_rules()
    page = document(rules, [measured], pairs)
    assert "| stale (confirmed) |" in page
    assert page.count("| stale |") == 1
    assert ">stale</text>" in chart(rules, measured, pairs)


def test_the_page_sets_what_gpus_gave_beside_the_claims() -> None:
    pairs = {pair.name: pair for pair in find_pairs()}
    rules = load_rules()
    measured = a_device(result(pairs["single-process-dataloader"]))
    page = document(rules, [measured], pairs)
    assert "| 3.7x | 2.0x [1.90, 2.1], single-process-dataloader, NVIDIA H200, torch 2.11 |" in page
    assert "Nothing was measured on a GPU yet" not in page
    on_cpu = a_device(result(pairs["single-process-dataloader"]), name="a CPU", kind="cpu")
    page = document(rules, [on_cpu], pairs)
    assert "| 3.7x | not measured yet |" in page
    assert "Nothing was measured on a GPU yet" in page


def test_the_chart_is_an_svg_with_a_row_for_every_result_and_the_number_of_those_missing() -> None:
    from xml.etree import ElementTree

    pairs = {pair.name: pair for pair in find_pairs()}
    rules = load_rules()
    one = Measurement("one", 1.0, "slower", "", 0.01, 0.005, 0.02)
    picture = chart(rules, a_device(result(pairs["missing-eval"], measurements=(one,))), pairs)
    texts = {
        "".join(text.itertext()) for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    }
    assert any("missing-eval" in text for text in texts)
    shown = {rule.name for rule in rules if rule.name in pairs} | {n for n, p in pairs.items() if p.kind == "program"}
    assert f"{len(shown) - 1} of {len(shown)} were not measured on this device" in texts
    assert any("NVIDIA H200" in text for text in texts)
    circles = list(ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 1
    assert LEFT <= float(circles[0].attrib["cx"]) <= WIDTH - RIGHT


def test_the_page_names_what_was_not_measured() -> None:
    pairs = {pair.name: pair for pair in find_pairs()}
    page = document(load_rules(), [a_device(result(pairs["missing-eval"]))], pairs)
    (line,) = [line for line in page.splitlines() if line.startswith("Not measured on this device: ")]
    missing = {name.split()[-1] for name in line.rstrip(".").partition(": ")[2].split(", ")}
    assert {"missing-no-grad", "language_model"} <= missing
    assert "missing-eval" not in missing


def test_figures_read_well() -> None:
    assert seconds(0.0123) == "12.3 ms"
    assert seconds(2.5) == "2.50 s"
    assert ratio(None) == ""
    one = Measurement("one", 1.0, "confirmed", before={"graphs": 9, "time": 1.0}, after={"graphs": 1, "time": 0.5})
    assert metric_change("graphs", one) == "graphs 9 → 1"
    assert metric_change("time", one) == ""
    assert change_of(one, "time", seconds) == "1.00 s → 500 ms"
    assert change_of(one, "peak memory", seconds) == ""
