"""The validation suite: programs that fail, files of results, the command line, the reports."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch

from validation import __main__ as command_line
from validation import campaign, report, worker
from validation import measure as measuring
from validation.intervals import PROCESS_PAIRS, Interval, time_verdict
from validation.measure import OutOfTimeError, Sides, Task, measure
from validation.pairs import CARD, ROOT, Pair, controls, find_pairs
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
    assert (found.speedup is None) == (verdict == "not measured")
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


def test_each_side_is_repeated_by_its_own_time(make_pair: MakePair, tmp_path: Path) -> None:
    log = tmp_path / "runs"
    pair = make_pair(work=f"time.sleep(0.2); open({str(log)!r}, 'a').write('.')")
    found = measured(pair)
    # The other side takes microseconds and is repeated up to a hundred times; this one is run once a sample.
    assert len(log.read_text()) < 4 * measuring.LEAST_SAMPLES
    assert found.after["time"] >= 0.2


def test_programs_that_differ_are_timed_all_the_same(make_pair: MakePair) -> None:
    found = measured(make_pair(work="time.sleep(0.05)", result="[state, 3 * state]"))
    assert found.verdict == "differs"
    assert found.speedup is not None and found.speedup < 0.5


def test_a_ratio_near_1_needs_several_pairs_of_processes(make_pair: MakePair) -> None:
    pair = make_pair(work="time.sleep(0.02)")
    pair = replace(pair, sides=("after", "after"))
    task = Task(pair, "one", 1.0, "cpu")
    found = None
    for count in range(1, PROCESS_PAIRS + 1):
        found = measure(Sides(task), limit=0, known=found)
        assert len(found.runs) == count
        if count < PROCESS_PAIRS:
            assert found.verdict == "not measured"
            assert found.reason == f"near 1 in {count} of {PROCESS_PAIRS} pairs of processes"
    assert found is not None and "pairs of processes" not in found.reason


def test_a_measurement_ends_at_the_deadline(make_pair: MakePair) -> None:
    pair = make_pair(work="time.sleep(30)")
    begin = monotonic()
    with pytest.raises(OutOfTimeError):
        measure(Sides(Task(pair, "one", 1.0, "cpu")), limit=40, deadline=begin + 8)
    assert monotonic() - begin < 15


def test_no_worker_outlives_a_suite_that_is_killed(make_pair: MakePair, tmp_path: Path) -> None:
    pair = make_pair(prepare=f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))", work="time.sleep(60)")
    code = f"""
from pathlib import Path
from validation.measure import Sides, Task, measure
from validation.pairs import Pair
measure(Sides(Task(Pair("little", "rule", Path({str(pair.folder)!r})), "one", 1.0, "cpu")), limit=40)
"""
    suite = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    worker_id = int((tmp_path / "pid").read_text())
    suite.kill()
    suite.wait()
    wait_for(lambda: not Path(f"/proc/{worker_id}").exists())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fails after a minute."""
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline
        sleep(0.05)


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
    runs = (([2.0] * 8, [1.0] * 8),)
    one = Measurement("one", 1.0, "confirmed", "", 2.0, 1.9, 2.1, 0.0, 0.01, {"time": 2.0}, {"time": 1.0}, runs)
    plain = Result(pair.name, pair.kind, pair.metric, pair.unit, pair.digest, "code", "2.11.0", "2026-01-31", (one,))
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

    def twice(sides: NoSides, limit: float, known: Measurement | None, deadline: float) -> Measurement:
        asked.append((sides.task.pair.name, sides.task.size))
        runs = (([2.0], [1.0]),)
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, runs=runs)

    monkeypatch.setattr(campaign, "Sides", NoSides)
    monkeypatch.setattr(campaign, "measure", twice)
    return asked


def test_every_pair_of_the_device_is_measured_once(quick: list[tuple[str, float]], tmp_path: Path) -> None:
    output = tmp_path / "cpu.json"
    assert command_line.main(["--device", "cpu", "--output", str(output)]) == 0
    pairs = [*find_pairs(), *controls(find_pairs())]
    expected = {(pair.name, size) for pair in pairs for size in pair.sizes.get("cpu", {}).values()}
    assert set(quick) == expected
    assert len(quick) == len(expected)
    known = load(output).results
    assert set(known) == {name for name, _ in expected}
    for pair in pairs:
        if pair.name in known:
            assert [one.label for one in known[pair.name].measurements] == list(pair.sizes["cpu"])


def test_resuming_measures_what_is_missing_or_stale(quick: list[tuple[str, float]], tmp_path: Path) -> None:
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval", "missing-no-grad"]
    assert command_line.main(arguments[:-1]) == 0
    assert command_line.main([*arguments, "--resume"]) == 0
    assert sorted(name for name, _ in quick) == ["missing-eval", "missing-no-grad"]
    results = load(output)
    changed = replace(results.results["missing-eval"], digest="another")
    save(replace(results, results={**results.results, "missing-eval": changed}), output)
    assert command_line.main([*arguments, "--resume"]) == 0
    assert [name for name, _ in quick[2:]] == ["missing-eval"]
    assert not load(output).results["missing-eval"].stale(next(p for p in find_pairs() if p.name == "missing-eval"))


def test_a_budget_that_is_used_up_leaves_the_rest(
    quick: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["--device", "cpu", "--output", str(tmp_path / "cpu.json"), "--budget", "1"]) == 1
    assert quick == []
    assert "continue with --resume" in capsys.readouterr().out


def test_the_most_important_tasks_come_first(quick: list[tuple[str, float]], tmp_path: Path) -> None:
    assert command_line.main(["--device", "cpu", "--output", str(tmp_path / "cpu.json")]) == 0
    pairs = {pair.name: pair for pair in [*find_pairs(), *controls(find_pairs())]}
    mains = {(name, next(iter(pair.sizes["cpu"].values()))) for name, pair in pairs.items() if pair.sizes.get("cpu")}
    first, rest = quick[: len(mains)], quick[len(mains) :]
    assert set(first) == mains
    assert not set(rest) & mains
    kinds = ["card" if name in CARD else pairs[name].kind for name, _ in first]
    assert kinds == sorted(kinds, key=["program", "card", "rule", "control"].index)


def test_a_result_near_1_is_not_done_before_its_pairs_of_processes(
    quick: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def near(sides: Sides, limit: float, known: Measurement | None, deadline: float) -> Measurement:
        runs = (*(known.runs if known else ()), ([1.0], [1.0]))
        asked.append(len(runs))
        said = time_verdict(Interval(1.0, 0.99, 1.01), len(runs))
        return Measurement(sides.task.label, sides.task.size, *said, 1.0, 0.99, 1.01, runs=runs)

    monkeypatch.setattr(campaign, "measure", near)
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval"]
    assert command_line.main(arguments) == 0
    assert asked == [1, 2, 3, 4]
    assert load(output).results["missing-eval"].main.verdict == "no effect"


def test_two_measurements_that_disagree_are_no_verdict(
    quick: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval"]
    assert command_line.main(arguments) == 0

    def slower(sides: Sides, *rest: object) -> Measurement:
        runs = (([1.0], [2.0]),)
        return Measurement(sides.task.label, sides.task.size, "slower", "", 0.5, 0.49, 0.51, runs=runs)

    monkeypatch.setattr(campaign, "measure", slower)
    assert command_line.main(arguments) == 0
    main = load(output).results["missing-eval"].main
    assert (main.verdict, main.reason) == ("not measured", "two measurements disagree: confirmed, then slower")


def test_a_failed_program_is_tried_again_when_resuming(
    quick: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval"]
    with monkeypatch.context() as broken:
        failed = Measurement("4 batches", 0.04, "not measured", "after: out of memory")
        broken.setattr(campaign, "measure", lambda *rest: failed)
        assert command_line.main(arguments) == 0
    assert command_line.main([*arguments, "--resume"]) == 0
    assert load(output).results["missing-eval"].main.verdict == "confirmed"


def test_a_run_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    names = "abcd"
    for name in names:
        folder = tmp_path / "root" / "validation" / "programs" / name
        folder.mkdir(parents=True)
        parts = {"head": "SIZES = {'cpu': {'one': 1.0}}", "prepare": "pass", "result": "[state]"}
        (folder / "before.py").write_text(PROGRAM.format(**parts, work="time.sleep(0.02)"))
        (folder / "after.py").write_text(PROGRAM.format(**parts, work="time.sleep(0.01)"))
    output = tmp_path / "cpu.json"
    code = f"""
import sys
from pathlib import Path
from validation import __main__ as command_line, campaign, pairs
command_line.find_pairs = lambda: pairs.find_pairs(Path({str(tmp_path / "root")!r}))
campaign.SAMPLING_S["cpu"] = 0.0
sys.exit(command_line.main(["--device", "cpu", "--output", {str(output)!r}, "--resume"]))
"""
    done: set[str] = set()
    for moment in (3.0, 6.0, 300.0):
        suite = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            shown, _ = suite.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            suite.kill()
            suite.communicate()
        found = set(load(output).results) if output.exists() else set()
        assert found >= done
        done = found
    assert suite.returncode == 0, shown
    assert done == set(names)


def test_an_interrupted_run_keeps_what_it_measured(
    quick: list[tuple[str, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice: Callable[..., Measurement] = vars(campaign)["measure"]

    def interrupted(sides: Sides, *rest: object) -> Measurement:
        if quick:
            raise KeyboardInterrupt
        return twice(sides, *rest)

    monkeypatch.setattr(campaign, "measure", interrupted)
    output = tmp_path / "cpu.json"
    arguments = ["--device", "cpu", "--output", str(output), "--rules", "missing-eval", "missing-no-grad"]
    assert command_line.main(arguments) == 130
    assert "continue with --resume" in capsys.readouterr().err
    assert len(load(output).results) == 1


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
    save(a_device(result(pair, digest="another"), name="a CPU", kind="cpu"), output)
    assert command_line.main(["--device", "cpu", "--output", str(output), "--list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert quick == []
    assert any("missing-eval " in row and "stale: the programs have changed" in row for row in rows)
    assert any("missing-no-grad" in row and "to do" in row for row in rows)
    assert any(row.startswith("Nothing to show on this device") and "unpinned-dataloader" in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rules", "mising-eval"], "there is no pair 'mising-eval'; did you mean missing-eval?"),
        (["--output", str(ROOT / "README.md"), "--list"], "README.md is not a file of results"),
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


def test_figures_read_well() -> None:
    assert seconds(0.0123) == "12.3 ms"
    assert seconds(2.5) == "2.50 s"
    assert ratio(None) == ""
    one = Measurement("one", 1.0, "confirmed", before={"graphs": 9, "time": 1.0}, after={"graphs": 1, "time": 0.5})
    assert metric_change("graphs", one) == "graphs 9 → 1"
    assert metric_change("time", one) == ""
    assert change_of(one, "time", seconds) == "1.00 s → 500 ms"
    assert change_of(one, "peak memory", seconds) == ""
