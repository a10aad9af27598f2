"""What users have measured themselves: it comes before what torchlint ships, wherever a speed-up is shown or used."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from little_pairs import a_device, result

from torchlint.commands import UsageError, measure
from torchlint.measure import campaign
from torchlint.measure.environment import Machine
from torchlint.measure.measure import Task
from torchlint.measure.pairs import pairs_in, rule_folder
from torchlint.measure.results import Measurement, load, save
from torchlint.rule import evidence
from torchlint.rule.evidence import Evidence, benchmark, conclusive, evidence_for, gain, measurements

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]
NAME = "missing-eval"
PAIRS = {pair.name: pair for pair in pairs_in(rule_folder(), "rule")}
OURS = Evidence("NVIDIA H200", True, "2.11", "2026-01-31", "512 photos", "confirmed", "", 3.4, 3.3, 3.5)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the user's results; torchlint ships one measurement, on an H200."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(evidence, "_shipped", lambda: {NAME: (OURS,)})

    def forget() -> None:
        evidence._own.cache_clear()
        evidence._own_results.cache_clear()
        evidence._problems.clear()

    forget()
    yield evidence.own_folder()
    forget()


def put(folder: Path, device: str, kind: str, **changes: object) -> None:
    """Measured on a device: by default twice as fast."""
    save(a_device(result(PAIRS[NAME], **changes), name=device, kind=kind), folder / f"{kind}.json")


def test_the_users_own_gpu_comes_first(own: Path) -> None:
    put(own, "NVIDIA RTX 4090", "cuda")
    assert [one.where for one in measurements(NAME)] == ["your NVIDIA RTX 4090", "NVIDIA H200"]
    assert benchmark(NAME) == "2.0x in the example program (your NVIDIA RTX 4090, torch 2.11)"
    assert evidence_for(NAME) == measurements(NAME)[0]
    assert gain(NAME, "GPU") == measurements(NAME)[0]
    assert gain(NAME, "H200") == OURS


def test_no_gain_on_the_users_own_device_counts_more_than_a_gain_elsewhere(own: Path) -> None:
    one = Measurement("one", 1.0, "no effect", "", 1.0, 0.99, 1.01)
    put(own, "NVIDIA RTX 4090", "cuda", measurements=(one,))
    assert gain(NAME, "GPU") is None


def test_a_cpu_is_never_next_to_a_finding_where_a_gpu_was_measured(own: Path) -> None:
    put(own, "a CPU", "cpu")
    assert measurements(NAME)[0].where == "your a CPU"
    assert evidence_for(NAME) == OURS
    assert "H200" in benchmark(NAME)
    assert gain(NAME, "CPU") == measurements(NAME)[0]


def test_a_result_of_another_program_is_not_evidence(own: Path) -> None:
    put(own, "NVIDIA RTX 4090", "cuda", digest="another")
    put(own, "a CPU", "cpu", name="a-rule-of-an-earlier-release")
    assert measurements(NAME) == (OURS,)
    assert measurements("a-rule-of-an-earlier-release") == ()


DAMAGED = (
    "",
    "{",
    "[]",
    '{"device": 1}',
    '{"device": "x", "environment": {}, "results": []}',
    '{"device": "x", "environment": {"type": "cuda"}, "results": 3}',
)


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_ignored(own: Path, content: str) -> None:
    put(own, "a CPU", "cpu")
    (own / "cuda.json").write_text(content)
    assert [one.where for one in measurements(NAME)] == ["your a CPU", "NVIDIA H200"]
    (problem,) = evidence.problems()
    assert problem.startswith(f"{own / 'cuda.json'} is not a file of results")


def test_a_damaged_file_is_one_warning(own: Path, torchlint_in: RunTorchlint) -> None:
    put(own, "a CPU", "cpu")
    (own / "cuda.json").write_text("{")
    done = torchlint_in(own, "explain", NAME, "missing-no-grad", env={"XDG_DATA_HOME": str(own.parents[1])})
    assert done.returncode == 0
    assert "your a CPU" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"warning: {own / 'cuda.json'} is not a file of results")


def test_kept_settings_follow_a_new_measurement(own: Path, tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "torchlint.toml").write_text('min-speedup = 1.5\ndevice = "a CPU"\n')
    put(own, "a CPU", "cpu")

    def runs() -> bool:
        shown = torchlint_in(project, "--show-settings", env={"XDG_DATA_HOME": str(tmp_path)})
        return "TL401" in shown.stdout

    assert runs()
    slower = Measurement("one", 1.0, "slower", "", 0.5, 0.4, 0.6)
    put(own, "a CPU", "cpu", measurements=(slower,))
    assert not runs()


@pytest.fixture
def quick(own: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is run: every pair is twice as fast. The list names what would have been measured."""
    asked: list[str] = []

    class NoSides:
        def __init__(self, task: Task, deadline: float) -> None:
            self.task = task

        def prepare(self) -> list[float]:
            return [0.0, 0.0]

        def stop(self) -> None:
            pass

    def twice(sides: NoSides, *rest: object) -> Measurement:
        asked.append(sides.task.pair.name)
        runs = (([2.0], [1.0]),)
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, runs=runs)

    monkeypatch.setattr(campaign, "Sides", NoSides)
    monkeypatch.setattr(campaign, "measure", twice)
    machine = Machine("cpu", "a CPU", {"type": "cpu", "torch": "2.13.0"})
    monkeypatch.setattr("torchlint.measure.environment.find_machine", lambda device: machine)
    return asked


def test_the_command_measures_once_and_keeps_what_it_measured(own: Path, quick: list[str]) -> None:
    assert measure.run(["TL401", NAME, "missing-no-grad"]) == 0
    assert sorted(quick) == [NAME, "missing-no-grad"]
    assert load(own / "a-cpu.json").results[NAME].main.speedup == 2.0
    assert measure.run([NAME]) == 0
    assert len(quick) == 2
    assert measure.run([NAME, "--again"]) == 0
    assert quick[2:] == [NAME]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mising-eval"], "unknown rule `mising-eval`; did you mean `missing-eval`?"),
        (["TL001"], "TL001 has no example program to measure"),
        (["unpinned-dataloader"], "no effect to measure on a CPU: unpinned-dataloader"),
    ],
)
def test_what_cannot_be_measured_is_named(quick: list[str], arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        measure.run(arguments)
    assert quick == []


def test_without_torch_the_command_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install torch"):
        measure.run([])


def test_only_a_measurement_with_a_verdict_is_shown_next_to_a_finding() -> None:
    open_gpu = replace(OURS, verdict="not measured", reason="near 1 in 1 of 4 pairs of processes")
    other_size = replace(OURS, size="48 photos")
    on_cpu = replace(OURS, device="a CPU", gpu=False)
    assert conclusive([open_gpu]) is None
    assert conclusive([open_gpu, other_size]) is None  # the verdict is about the main size
    assert conclusive([open_gpu, on_cpu]) == on_cpu
    assert conclusive([on_cpu, OURS]) == OURS
    assert conclusive([replace(OURS, verdict="slower")]) is not None
    assert conclusive([]) is None
