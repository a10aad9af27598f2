"""The command line of the validation suite: what is measured, in which order, and what a run leaves behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest
import torch
from little_pairs import PROGRAM, a_device, result
from torch_forks import run_without_workers, started

from torchlint.measure import campaign
from torchlint.measure.intervals import Interval, time_verdict
from torchlint.measure.measure import Sides, Task
from torchlint.measure.pairs import CARD, Metric, Pair
from torchlint.measure.results import Measurement, load, save
from validation import __main__ as command_line
from validation.pairs import ROOT, controls, find_pairs


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Nothing is run: every pair is twice as quick. The list tells what would have been measured."""
    asked: list[tuple[str, float]] = []

    class NoSides:
        def __init__(self, task: Task, deadline: float) -> None:
            self.task = task

        def prepare(self) -> list[float]:
            return [0.0, 0.0]

        def stop(self) -> None:
            pass

    def twice(sides: NoSides, limit: float, known: Measurement | None, deadline: float) -> Measurement:
        asked.append((sides.task.pair.name, sides.task.size))
        runs = (([2.0], [1.0]),)
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, runs=runs)

    monkeypatch.setattr(campaign, "Sides", NoSides)
    monkeypatch.setattr(campaign, "measure", twice)
    return asked


@pytest.mark.parametrize(
    ("cores", "memory", "width"), [(16, "141 GiB", 4), (8, "80 GiB", 2), (8, "24 GiB", 1), (2, "", 1)]
)
def test_a_large_machine_prepares_several_pairs_at_once(
    cores: int, memory: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are made together and measured one after another; what times the start is alone."""
    prepared: set[str] = set()
    ready: list[list[str]] = []

    class Recorded:
        def __init__(self, task: Task, deadline: float) -> None:
            self.task = task

        def prepare(self) -> None:
            prepared.add(self.task.pair.name)

        def stop(self) -> None:
            prepared.discard(self.task.pair.name)

    def once(sides: Recorded, limit: float, known: Measurement | None, deadline: float) -> Measurement:
        ready.append(sorted(prepared))
        sides.stop()
        return Measurement(sides.task.label, sides.task.size, "confirmed", "", 2.0, 1.9, 2.1, runs=(([2.0], [1.0]),))

    monkeypatch.setattr(campaign, "Sides", Recorded)
    monkeypatch.setattr(campaign, "measure", once)
    monkeypatch.setattr(campaign, "cpu_count", lambda: cores)
    environment = {"type": "cuda", "torch": "2.11.0", **({"memory": memory} if memory else {})}
    names = "abcdefg"
    kinds: list[Metric] = ["time", "time", "time", "time", "time", "first run", "time"]
    tasks = [
        Task(Pair(name, "rule", tmp_path, kind, sizes={"cuda": {"one": 1.0}}), "one", 1.0, "cuda")
        for name, kind in zip(names, kinds, strict=True)
    ]
    for task in tasks:
        task.pair.__dict__["digest"] = "same"
    assert campaign.Campaign("a GPU", environment, {}, tmp_path / "gpu.json").run(tasks)
    expected = {
        4: [["a", "b", "c", "d"], ["b", "c", "d"], ["c", "d"], ["d"], ["e"], ["f"], ["g"]],
        2: [["a", "b"], ["b"], ["c", "d"], ["d"], ["e"], ["f"], ["g"]],
        1: [[name] for name in names],
    }
    assert ready == expected[width]


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
    names = {f"pair-{number:02}" for number in range(40)}
    for name in names:
        folder = tmp_path / "root" / "validation" / "programs" / name
        folder.mkdir(parents=True)
        for side in ("before", "after"):
            parts = {"head": "SIZES = {'cpu': {'one': 1.0}}", "prepare": "pass", "work": "pass", "result": "[state]"}
            (folder / f"{side}.py").write_text(PROGRAM.format(**parts))
    output = tmp_path / "cpu.json"

    def found() -> set[str]:
        return set(load(output).results) if output.exists() else set()

    done: set[str] = set()
    for moment in range(6):
        suite = started(run_without_workers, tmp_path / "root", output)
        while suite.is_alive() and found() <= done:
            sleep(0.001 * moment)
        sleep(0.003 * moment)  # somewhere in the work on the next pair
        suite.kill()
        suite.join()
        assert found() > done
        done = found()
    assert done < names
    suite = started(run_without_workers, tmp_path / "root", output)
    suite.join()
    assert suite.exitcode == 0
    assert found() == names


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
    monkeypatch.setenv("COLUMNS", "3000")
    output = tmp_path / "cpu.json"
    pair = next(pair for pair in find_pairs() if pair.name == "missing-eval")
    save(a_device(result(pair, digest="another"), name="a CPU", kind="cpu"), output)
    assert command_line.main(["--device", "cpu", "--output", str(output), "--list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert quick == []
    assert any("missing-eval " in row and "stale: the programs have changed" in row for row in rows)
    assert any("missing-no-grad" in row and "to do" in row for row in rows)
    assert any(row.startswith("No effect to measure on this device") and "unpinned-dataloader" in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rules", "mising-eval"], "unknown rule or program 'mising-eval'; did you mean missing-eval?"),
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
        ("SIZES = {'tpu': {'one': 1.0}}", "SIZES must map device types to sizes"),
        ("SIZES = {'cpu': {}}", "SIZES must map device types to sizes"),
        ("", "SIZES must map device types to sizes"),
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
    hide = "import sys; sys.modules.update(dict.fromkeys(['libcst', 'torchlint.model', 'torchlint.rule', 'pathspec']))"
    listing = f"sys.argv[1:] = ['--device', 'cpu', '--list', '--output', {str(tmp_path / 'x.json')!r}]"
    code = f"{hide}; import torchlint.measure.worker; from validation.__main__ import main; {listing}; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "missing-eval" in done.stdout
