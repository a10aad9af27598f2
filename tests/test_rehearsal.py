"""The fake CUDA device, what the programs do on it, and what is expected of them on a real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.measure.campaign import likely_seconds
from torchlint.measure.expectation import Expectation, expectations
from torchlint.measure.measure import Task
from torchlint.measure.pairs import Pair
from validation.pairs import ROOT, find_pairs
from validation.rehearsal import Rehearsal, line, rehearse

PAIRS = [pair for pair in find_pairs() if "cuda" in pair.sizes]
#: At this size a CPU makes the data of every pair within seconds.
SIZE = 0.005

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def prepare(device, size):
    return device, nn.Linear(4, 2).to(device)

def work(state):
    device, model = state
    {work}
"""


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_both_sides_run_on_a_fake_cuda_device(pair: Pair, side: str) -> None:
    """Once; that each may run again on the same state is seen on the CPU (`test_pairs.py`)."""
    assert rehearse(pair, "small", SIZE, side, again=False).error == ""


def test_the_command_rehearses_both_sides() -> None:
    names = ["missing-eval", "missing-no-grad"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "validation.rehearsal", "--size", str(SIZE), "--rules", *names],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *rows, last = done.stdout.splitlines()
    assert [row.partition(":")[0] for row in rows] == [
        f"{name} {side} (size {SIZE})" for name in names for side in ("before", "after")
    ]
    assert "FAILED" not in done.stdout
    assert last.startswith("0 failed, torch ")


Rehearse = Callable[[str], Rehearsal]


@pytest.fixture
def run(tmp_path: Path) -> Rehearse:
    """Rehearses a program with these lines of work."""

    def run(work: str) -> Rehearsal:
        (tmp_path / "before.py").write_text(PROGRAM.format(work=work))
        pair = Pair("little", "rule", tmp_path, sizes={"cuda": {"one": 1.0}})
        return rehearse(pair, "one", 1.0, "before")

    return run


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("model(torch.zeros(3, 4))", "RuntimeError: Expected all tensors to be on the same device"),
        ("model(torch.zeros(3, 5, device=device))", "RuntimeError: a and b must have same reduction dim"),
        ("model(torch.zeros(3, 4, device=device).half())", "RuntimeError: expected tensors of one dtype"),
        ("torch.zeros(3, device=device).pin_memory()", "RuntimeError: cannot pin"),
        ("torch.zeros(3, device=device).numpy()", "RuntimeError: .numpy() is not supported"),
        (
            "list(DataLoader(TensorDataset(torch.zeros(4)), num_workers=1, collate_fn=lambda _: torch.ones(1).cuda()))",
            "RuntimeError: ",
        ),
        ("raise SystemExit(3)", "ended with status 3"),
    ],
)
def test_what_fails_on_a_gpu_fails_in_the_rehearsal(work: str, error: str, run: Rehearse) -> None:
    done = run(work)
    assert done.error.startswith(error)
    assert f"little before (one): FAILED {done.error}" == line(done)


def test_it_counts_what_a_run_asks_of_the_device(run: Rehearse) -> None:
    done = run("[model(torch.zeros(3, 4, device=device)).sum().item() for _ in range(5)]")
    assert done.error == "" and done.run is not None
    assert done.run.synchronizations == 5
    assert done.run.operations == 5 * 3  # zeros, addmm, sum
    assert done.run.flops == 5 * 2 * 3 * 4 * 2


@pytest.mark.parametrize(
    ("copy", "synchronizations", "takes_time"),
    [
        ("torch.zeros(1024).to(device)", 1, True),
        ("torch.zeros(1024).to(device, non_blocking=True)", 0, True),
        ("torch.zeros(1024).pin_memory().to(device, non_blocking=True)", 0, False),
        ("torch.zeros(1024, device=device)", 0, False),
        ("torch.zeros(1024, device=device).cpu()", 1, True),
    ],
)
def test_copies_wait_for_the_device_or_overlap(
    copy: str, synchronizations: int, takes_time: bool, run: Rehearse
) -> None:
    done = run(copy)
    assert done.run is not None
    assert done.run.synchronizations == synchronizations
    assert (done.run.copy_s > 0) == takes_time


def test_autocast_and_gradients_work(run: Rehearse) -> None:
    work = """
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(torch.zeros(3, 4, device=device))
    assert out.dtype == torch.bfloat16 and out.device.type == "cuda" and out.is_cuda
    out.float().sum().backward()
    assert model.weight.grad.device.type == "cuda" and model.weight.grad.shape == (2, 4)
    scaler = torch.amp.GradScaler("cuda")
    assert scaler.is_enabled()
    """
    assert run(work.strip()).error == ""


# Expectations


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_each_cuda_size_has_an_expectation(pair: Pair) -> None:
    assert set(pair.expected) == set(pair.sizes["cuda"])


def test_the_main_sizes_fit_into_two_commands() -> None:
    """A command on a borrowed GPU ends after ten minutes; one is for the start and the transfer of the results.

    A second command goes on where the first has ended.
    """
    tasks = [Task(pair, label, size, "cuda") for pair in PAIRS for label, size in pair.sizes["cuda"].items()]
    assert sum(likely_seconds(task) for task in tasks if task.is_main) <= 2 * 540


TEXT = """One line.

Expected on an NVIDIA H200:

- 8 rows: 1.1x to 1.4x; 90 ms a run, 5 s to start. A reason
  over two lines.
- 2 rows: 0.9x to 1.05x; 1.5 s a run, 0.5 s to start. None.
"""


def test_an_expectation_is_read_from_the_docstring() -> None:
    assert expectations(TEXT, ["8 rows", "2 rows"]) == {
        "8 rows": Expectation(1.1, 1.4, 0.09, 5.0, "A reason over two lines."),
        "2 rows": Expectation(0.9, 1.05, 1.5, 0.5, "None."),
    }
    assert expectations("One line.", ["8 rows"]) == {}


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        (TEXT, ["8 rows"], "the expectations are for"),
        (TEXT.replace("to 1.4x", "or 1.4x"), ["8 rows", "2 rows"], "must read"),
        (TEXT.replace("1.4x", "1.0x"), ["8 rows", "2 rows"], "the smaller speed-up first"),
    ],
)
def test_an_expectation_that_cannot_be_read_is_an_error(text: str, labels: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expectations(text, labels)
