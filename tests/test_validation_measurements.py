"""The measurements of the validation suite: programs that fail, how often each runs, what is counted."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import little_pairs
import pytest
import torch
from little_pairs import PROGRAM, MakePair

from torchlint.measure import measure as measuring
from torchlint.measure import worker
from torchlint.measure.counters import counting_warnings
from torchlint.measure.intervals import PROCESS_PAIRS
from torchlint.measure.measure import OutOfTimeError, Sides, Task, measure
from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement
from validation.pairs import ROOT

make_pair = little_pairs.make_pair


def measured(pair: Pair) -> Measurement:
    """A pair measured as briefly as can be."""
    return measure(Sides(Task(pair, "one", 1.0, "cpu")), limit=0)


@pytest.mark.usefixtures("forked_workers")
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
        ({"result": "[state, 3 * state]"}, "differs", "the results are 0.5 apart, 0.01 is allowed"),
        ({"result": "[state]"}, "differs", "the results are inf apart, 0.01 is allowed"),
        ({"result": "[state, float('nan')]"}, "differs", "the results are inf apart, 0.01 is allowed"),
    ],
)
def test_what_goes_wrong_in_a_program_is_recorded(
    parts: dict[str, str], verdict: str, reason: str, make_pair: MakePair
) -> None:
    found = measured(make_pair(**parts))
    assert found.verdict == verdict
    assert found.reason.startswith(reason)
    assert (found.speedup is None) == (verdict == "not measured")
    json.dumps(found.difference, allow_nan=False)


@pytest.mark.usefixtures("forked_workers")
def test_a_program_that_hangs_is_recorded(make_pair: MakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = Sides(Task(make_pair(work="time.sleep(60)"), "one", 1.0, "cpu"))
    sides.prepare()  # however long the processes take to start
    monkeypatch.setattr(measuring, "HANG_S", 4.0)
    found = measure(sides, limit=0)
    assert (found.verdict, found.reason, found.speedup) == ("not measured", "after: no answer within 4 s", None)


def test_what_a_program_prints_disturbs_nothing(make_pair: MakePair) -> None:
    found = measured(make_pair(work="print('{}', flush=True); sys.stdout.write('half a line')"))
    assert found.speedup is not None
    assert found.difference == 0


@pytest.mark.usefixtures("forked_workers")
def test_first_runs_are_taken_in_fresh_processes(make_pair: MakePair, tmp_path: Path) -> None:
    pair = make_pair(prepare=f"open({str(tmp_path / 'log')!r}, 'a').write(str(os.getpid()) + ' ')")
    found = measured(replace(pair, metric="first run"))
    assert found.samples == measuring.LEAST_SAMPLES
    assert len(set((tmp_path / "log").read_text().split())) == found.samples


@pytest.mark.usefixtures("forked_workers")
def test_each_side_is_repeated_by_its_own_time(make_pair: MakePair, tmp_path: Path) -> None:
    log = tmp_path / "runs"
    pair = make_pair(work=f"time.sleep(0.2); open({str(log)!r}, 'a').write('.')")
    found = measured(pair)
    # The other side takes microseconds and is repeated up to a hundred times; this one is run once a sample.
    assert len(log.read_text()) < 4 * measuring.LEAST_SAMPLES
    assert found.after["time"] >= 0.2


@pytest.mark.usefixtures("forked_workers")
def test_programs_that_differ_are_timed_all_the_same(make_pair: MakePair) -> None:
    found = measured(make_pair(work="time.sleep(0.05)", result="[state, 3 * state]"))
    assert found.verdict == "differs"
    assert found.speedup is not None and found.speedup < 0.5


@pytest.mark.usefixtures("forked_workers")
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


@pytest.mark.usefixtures("forked_workers")
def test_a_measurement_ends_at_the_deadline(make_pair: MakePair) -> None:
    sides = Sides(Task(make_pair(work="time.sleep(60)"), "one", 1.0, "cpu"))
    sides.prepare()  # however long the processes take to start
    begin = monotonic()
    with pytest.raises(OutOfTimeError):
        measure(sides, limit=40, deadline=begin + 2)
    assert monotonic() - begin < 30


def test_no_worker_outlives_a_suite_that_is_killed(make_pair: MakePair, tmp_path: Path) -> None:
    pair = make_pair(prepare=f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))", work="time.sleep(60)")
    code = f"""
from pathlib import Path
from torchlint.measure.measure import Sides, Task, measure
from torchlint.measure.pairs import Pair
measure(Sides(Task(Pair("little", "rule", Path({str(pair.folder)!r})), "one", 1.0, "cpu")), limit=40)
"""
    suite = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    worker_id = int((tmp_path / "pid").read_text())
    suite.kill()
    suite.wait()
    wait_for(lambda: not Path(f"/proc/{worker_id}").exists())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = monotonic() + 240  # on a busy machine
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


@pytest.mark.usefixtures("forked_workers")
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
    with counting_warnings() as caught:
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
